// What this version cannot enforce and therefore refuses: an execve can only be continued, and only Landlock
// then holds it. So execution is allowed by whole directories and files, and never restricted inside them.
#include <algorithm>

#include "rules/limits.hpp"
#include "rules/plan_parts.hpp"

namespace callgate::rules {

namespace {

using planning::names_asker;
using planning::restricts;

bool executes(const Rule& rule) {
    return rule.operations.contains(Operation::execute) && planning::decides_files(rule);
}

template <typename Test>
bool any_path(const Conditions& when, Test test) {
    return when.path.empty() || std::any_of(when.path.begin(), when.path.end(), test);
}

/// Something that is allowed to be executed: a hierarchy, or one file.
struct Allowed {
    std::string path;
    bool hierarchy = false;
    std::string by;
};

bool may_match(const Conditions& when, const Allowed& allowed) {
    return any_path(when, [&](const Glob& glob) {
        return allowed.hierarchy ? glob.may_match_beneath(allowed.path) : glob.matches(allowed.path);
    });
}

bool covers(const Conditions& when, const Allowed& allowed) {
    if (names_asker(when)) return false;
    return any_path(when, [&](const Glob& glob) {
        return allowed.hierarchy ? glob.covers_hierarchy(allowed.path) : glob.matches(allowed.path);
    });
}

bool freed(const Rule& rule, const Allowed& allowed) {
    return rule.except && !rule.except->path.empty() && covers(*rule.except, allowed);
}

std::vector<Allowed> what_may_execute(const RuleSet& rules) {
    std::vector<Allowed> all;
    if (rules.fallback() == Action::allow) all.push_back({"/", true, "the default"});
    for (const Rule& rule : rules.rules()) {
        if (restricts(rule) || !executes(rule)) continue;
        if (rule.when.path.empty()) all.push_back({"/", true, "rule " + rule.id});
        for (const Glob& glob : rule.when.path)
            for (const Glob::Branch& branch : glob.branches())
                if (branch.literal || branch.hierarchy)
                    all.push_back({branch.head, branch.hierarchy, "rule " + rule.id});
    }
    // Where everything is restricted nothing is granted: Landlock then denies it as the rules do.
    std::erase_if(all, [&](const Allowed& allowed) {
        return std::any_of(rules.rules().begin(), rules.rules().end(), [&](const Rule& rule) {
            return restricts(rule) && executes(rule) && !rule.except && covers(rule.when, allowed);
        });
    });
    return all;
}

std::string why_restriction(const Rule& rule, const std::vector<Allowed>& all) {
    for (const Allowed& allowed : all)
        if (may_match(rule.when, allowed) && !freed(rule, allowed))
            return "this version cannot " + std::string(name(rule.action)) + " execution inside " +
                   allowed.path + ", where " + allowed.by + " allows it";
    return "";
}

std::string why_permission(const Rule& rule, const std::vector<Allowed>& all) {
    if (names_asker(rule.when)) return "this version cannot allow execution by the asking program";
    if (rule.except) return "this version cannot allow execution with an exception";
    for (const Glob& glob : rule.when.path) {
        for (const Glob::Branch& branch : glob.branches()) {
            const bool whole = branch.literal || branch.hierarchy;
            const bool held = std::any_of(all.begin(), all.end(), [&](const Allowed& allowed) {
                return allowed.hierarchy && planning::at_or_beneath(branch.head, allowed.path);
            });
            if (!whole && !held)
                return "this version can allow execution of whole directories (`/**`) and of files only, not "
                       "of the "
                       "pattern " +
                       glob.text();
        }
    }
    return "";
}

std::string why_not(const Rule& rule, const std::vector<Allowed>& all) {
    const bool suffix = std::any_of(rule.when.host.begin(), rule.when.host.end(),
                                    [](const HostPattern& host) { return host.suffix; });
    if (suffix) return "this version cannot know which addresses belong to a `*.suffix`";
    if (!executes(rule)) return "";
    if (rule.when.argv || (rule.except && rule.except->argv)) return "this version cannot decide by `argv`";
    return restricts(rule) ? why_restriction(rule, all) : why_permission(rule, all);
}

}  // namespace

std::vector<std::pair<const Rule*, std::string>> unenforceable(const RuleSet& rules) {
    const std::vector<Allowed> all = what_may_execute(rules);
    std::vector<std::pair<const Rule*, std::string>> found;
    for (const Rule& rule : rules.rules())
        if (std::string why = why_not(rule, all); !why.empty()) found.emplace_back(&rule, std::move(why));
    return found;
}

std::vector<std::string> unenforceable(const Limits& limits) {
    std::vector<std::string> names;
    if (limits.memory) names.emplace_back("memory");
    if (limits.processes) names.emplace_back("processes");
    if (limits.cpu) names.emplace_back("cpu");
    if (limits.disk) names.emplace_back("disk");
    if (limits.idle) names.emplace_back("idle");
    return names;
}

}  // namespace callgate::rules
