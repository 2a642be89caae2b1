// Rules and files for tests of the plan and of the rename check.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::rules::testing {

/// A file tree of paths: "/w/" is a directory, "/w/a" a file, "/w/l@" a symbolic link. Parents are made.
class MemoryTree : public FileTree {
public:
    MemoryTree() { add("/"); }
    MemoryTree(std::initializer_list<std::string> paths) : MemoryTree() {
        for (const std::string& path : paths) add(path);
    }
    void add(std::string path) {
        Entry entry;
        entry.directory = path.ends_with('/');
        entry.symbolic_link = path.ends_with('@');
        if (path != "/" && (entry.directory || entry.symbolic_link)) path.pop_back();
        if (path != "/") add(path.substr(0, path.rfind('/') + 1));
        entry.name = path.substr(path.rfind('/') + 1);
        all_.emplace(path, entry);
    }
    [[nodiscard]] Kind kind(const std::string& path) const override {
        const auto found = all_.find(path);
        if (found == all_.end()) return Kind::absent;
        return found->second.directory ? Kind::directory : Kind::file;
    }
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override {
        std::vector<Entry> children;
        const std::string prefix = directory == "/" ? "/" : directory + "/";
        for (const auto& [path, entry] : all_)
            if (path != "/" && path.starts_with(prefix) && path.find('/', prefix.size()) == std::string::npos)
                children.push_back(entry);
        if (children.size() > limit) return std::nullopt;
        return children;
    }
    [[nodiscard]] const std::map<std::string, Entry>& all() const { return all_; }

private:
    std::map<std::string, Entry> all_;
};

inline Glob glob(const std::string& pattern) {
    const auto kind = pattern.starts_with('@') ? GlobKind::text : GlobKind::path;
    const auto compiled = Glob::compile(pattern, kind);
    REQUIRE_MESSAGE(compiled.has_value(), pattern, ": ", compiled.error().text);
    return *compiled;
}

inline std::vector<Glob> globs(const std::vector<std::string>& patterns) {
    std::vector<Glob> all;
    for (const std::string& pattern : patterns) all.push_back(glob(pattern));
    return all;
}

inline Rule rule(std::string id, Action action, OperationSet operations,
                 const std::vector<std::string>& paths = {}) {
    Rule made;
    made.id = std::move(id);
    made.action = action;
    made.operations = operations;
    made.when.path = globs(paths);
    return made;
}

inline Rule except(Rule from, const std::vector<std::string>& paths) {
    from.except.emplace();
    from.except->path = globs(paths);
    return from;
}

inline Rule by(Rule from, const std::string& program) {
    from.when.program = globs({program});
    return from;
}

inline Rule socket(std::string id, Action action, OperationSet operations,
                   const std::vector<std::string>& names) {
    Rule made = rule(std::move(id), action, operations);
    made.when.unix_socket = globs(names);
    return made;
}

inline Rule ports(Rule from, std::vector<PortRange> ranges) {
    from.when.port = std::move(ranges);
    return from;
}

/// The decisions of a plan, without the reasons.
inline std::string decisions(const Plan& plan) {
    std::string text = names(plan.notified) + ';';
    for (const Contest& contest : plan.contests) text += std::string(name(contest.operation)) + ';';
    for (const Grant& grant : plan.grants)
        text += grant.path + (grant.directory ? "/ " : " ") + names(grant.operations) +
                (grant.notify_only_read ? " notify-only;" : ";");
    for (const HeldPorts* held : {&plan.tcp_connect, &plan.tcp_bind, &plan.udp_connect, &plan.udp_bind}) {
        for (const PortRange& range : held->ports)
            text += std::to_string(range.first) + '-' + std::to_string(range.last) + ' ';
        text += held->all ? "all" : "";
        text += held->exact ? "exact;" : ";";
    }
    for (const bool one : {plan.notify_only, plan.udp, plan.unix_datagram, plan.unix_closed})
        text += one ? '1' : '0';
    return text;
}

/// Makes each plan a second time without reasons, and checks that it decides the same.
inline Plan plan(const RuleSet& rules, const FileTree& tree, int abi = 7,
                 RecordMode record = RecordMode::contested) {
    PlanInput input{.landlock_abi = abi, .record = record, .tree = &tree, .reasons = false};
    const Plan silent = make_plan(rules, input);
    input.reasons = true;
    Plan told = make_plan(rules, input);
    CHECK(decisions(silent) == decisions(told));
    CHECK(silent.tiers.empty());
    return told;
}

inline const Grant* find(const Plan& plan, const std::string& path) {
    for (const Grant& grant : plan.grants)
        if (grant.path == path) return &grant;
    return nullptr;
}

inline std::string granted(const Plan& plan, const std::string& path) {
    const Grant* grant = find(plan, path);
    return grant == nullptr ? "" : names(grant->operations);
}

inline const std::string& why(const Plan& plan, const std::string& id) {
    for (const RuleTier& tier : plan.tiers)
        if (tier.rule->id == id) return tier.why;
    static const std::string none = "(no such rule)";
    return none;
}

inline Tier tier(const Plan& plan, const std::string& id) {
    for (const RuleTier& tier : plan.tiers)
        if (tier.rule->id == id) return tier.tier;
    FAIL("no tier for ", id);
    return Tier::contested;
}

inline constexpr OperationSet read_write = write_operations | OperationSet(Operation::read);
inline constexpr OperationSet read_execute{Operation::read, Operation::execute};

}  // namespace callgate::rules::testing
