#include "rules/plan/link_names.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/test_switch.hpp"
#include "rules/plan/plan_parts.hpp"

namespace callgate::rules {

namespace {

/// Whether the branch is one of a restriction that could match at any depth.
bool floats(const Rule& rule, const Glob::Branch& branch) {
    return rule.action != Action::allow && branch.remainder.starts_with("/**/");
}

bool creates_names(const Rule& rule) {
    return rule.operations.contains(Operation::create) && planning::decides_files(rule);
}

bool denies_always(const Rule& rule) {
    return (rule.action == Action::deny || rule.action == Action::kill) && !rule.except &&
           !planning::names_asker(rule.when);
}

/// The result stands for what lies strictly beneath a directory, as LinkRoots writes it.
std::string beneath(const std::string& directory) { return directory == "/" ? directory : directory + '/'; }

/// `root` may end with a slash: then it does not hold that directory itself.
bool lies_in(std::string_view path, std::string_view root) {
    return root.ends_with('/') ? path.starts_with(root) : at_or_beneath(path, root);
}

}  // namespace

LinkNames::LinkNames(const RuleSet& rules) {
    for (const Rule& rule : rules.rules()) {
        if (rule.links) {
            denials_.push_back(&rule);
            continue;
        }
        add(rule, rule.when);
        if (rule.except) add(rule, *rule.except);
    }
    // The first rule in file order is named where several have one head.
    std::ranges::stable_sort(names_, [](const Name& one, const Name& other) {
        return planning::PathOrder()(one.path, other.path);
    });
}

void LinkNames::add(const Rule& rule, const Conditions& conditions) {
    for (const std::vector<Glob>* const globs : {&conditions.path, &conditions.unix_socket})
        for (const Glob& glob : *globs)
            for (const Glob::Branch& branch : glob.branches())
                if (branch.head.starts_with('/') && !floats(rule, branch))
                    names_.push_back({branch.head, &rule});
}

std::vector<LinkNames::Name>::const_iterator LinkNames::first_from(std::string_view path) const {
    return std::ranges::lower_bound(names_, path, planning::PathOrder(), &Name::path);
}

const Rule* LinkNames::reserving(std::string_view path) const {
    const auto found = first_from(path);
    if (found != names_.end() && at_or_beneath(found->path, path)) return found->rule;
    return check_enabled("denied-links") ? denying(path) : nullptr;
}

const Rule* LinkNames::denying(std::string_view path) const {
    const auto matches = [path](const Glob& glob) { return glob.matches(path); };
    const auto found = std::ranges::find_if(denials_, [&](const Rule* one) {
        return std::ranges::any_of(one->when.path, matches) &&
               !(one->except && std::ranges::any_of(one->except->path, matches));
    });
    return found != denials_.end() ? *found : nullptr;
}

bool LinkNames::denies_beneath(std::string_view directory) const {
    return std::ranges::any_of(denials_, [directory](const Rule* one) {
        return std::ranges::any_of(
            one->when.path, [directory](const Glob& glob) { return glob.covers_hierarchy(directory); });
    });
}

std::vector<LinkNames::Reserved> LinkNames::beneath(std::string_view directory) const {
    std::vector<Reserved> all;
    for (auto name = first_from(directory); name != names_.end() && at_or_beneath(name->path, directory);
         ++name)
        if (name->path != directory)
            all.push_back({name->path.substr(directory == "/" ? 1 : directory.size() + 1), name->rule});
    return all;
}

LinkRoots::LinkRoots(const RuleSet& rules, std::string_view own) {
    if (rules.fallback() == Action::allow) add("/");
    for (const Rule& rule : rules.rules()) {
        if (rule.action != Action::allow || !creates_names(rule)) continue;
        if (rule.when.path.empty()) add("/");
        for (const Glob& glob : rule.when.path)
            for (const Glob::Branch& branch : glob.branches())
                if (!branch.literal && (own.empty() || !at_or_beneath(branch.head, own)))
                    add(beneath(branch.head));
    }
    if (rules.fallback() != Action::allow) return;
    for (const Rule& rule : rules.rules())
        if (denies_always(rule) && creates_names(rule))
            for (const Glob& glob : rule.when.path)
                for (const Glob::Branch& branch : glob.branches())
                    if (branch.hierarchy) close(branch.head);
}

LinkRoots LinkRoots::of_pointers(const RuleSet& rules, std::string_view own) {
    LinkRoots pointers(rules, own);
    for (const Rule& rule : rules.rules()) {
        if (!denies_always(rule) || !rule.operations.contains(Operation::modify)) continue;
        for (const Glob& glob : rule.when.path)
            for (const Glob::Branch& branch : glob.branches())
                if (branch.literal && branch.head.ends_with("/.git")) pointers.close(branch.head);
    }
    return pointers;
}

void LinkRoots::add(std::string_view root) {
    std::erase_if(closed_.all,
                  [root](const std::string& one) { return lies_in(one, root) || lies_in(root, one); });
    roots_.add(root);
}

void LinkRoots::add_all(const LinkRoots& other) {
    Paths closed;
    for (const std::string& one : closed_.all)
        if (other.excludes(one)) closed.add(one);
    for (const std::string& one : other.closed_.all)
        if (excludes(one)) closed.add(one);
    for (const std::string& root : other.roots_.all) roots_.add(root);
    closed_ = std::move(closed);
}

void LinkRoots::join(std::size_t most) {
    std::map<std::string, std::size_t> counts;
    for (const std::string& root : roots_.all)
        if (root != "/") ++counts[root.substr(0, root.rfind('/', root.size() - 2) + 1)];
    for (const auto& [directory, count] : counts)
        if (count > most) add(directory);
}

bool LinkRoots::may_hold(std::string_view link) const {
    // A directory above a closed one is reserved.
    return roots_.hold(link) && !closed_.meet(link);
}

bool LinkRoots::covers(const LinkRoots& other) const {
    return std::ranges::all_of(other.roots_.all,
                               [this](const std::string& one) { return roots_.hold(one); }) &&
           std::ranges::all_of(closed_.all, [&other](const std::string& one) { return other.excludes(one); });
}

bool LinkRoots::excludes(std::string_view directory) const {
    return closed_.hold(directory) || !roots_.meet(directory);
}

void LinkRoots::Paths::add(std::string_view path) {
    if (hold(path)) return;
    const auto first = std::ranges::lower_bound(all, path, planning::PathOrder());
    const auto last =
        std::find_if(first, all.end(), [path](const std::string& one) { return !lies_in(one, path); });
    all.insert(all.erase(first, last), std::string(path));
}

bool LinkRoots::Paths::hold(std::string_view path) const {
    // A path sorts directly before what lies in it.
    const auto after = std::ranges::upper_bound(all, path, planning::PathOrder());
    return after != all.begin() && lies_in(path, *std::prev(after));
}

bool LinkRoots::Paths::meet(std::string_view path) const {
    const auto first = std::ranges::lower_bound(all, path, planning::PathOrder());
    return hold(path) || (first != all.end() && lies_in(*first, path));
}

}  // namespace callgate::rules
