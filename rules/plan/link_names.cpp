#include "rules/plan/link_names.hpp"

#include <algorithm>

#include "rules/plan/plan_parts.hpp"

namespace callgate::rules {

namespace {

/// Whether the branch is one of a restriction that could match at any depth.
bool floats(const Rule& rule, const Glob::Branch& branch) {
    return rule.action != Action::allow && branch.remainder.starts_with("/**/");
}

}  // namespace

LinkNames::LinkNames(const RuleSet& rules) {
    for (const Rule& rule : rules.rules()) {
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
    return found != names_.end() && planning::at_or_beneath(found->path, path) ? found->rule : nullptr;
}

std::vector<LinkNames::Reserved> LinkNames::beneath(std::string_view directory) const {
    std::vector<Reserved> all;
    for (auto name = first_from(directory);
         name != names_.end() && planning::at_or_beneath(name->path, directory); ++name)
        if (name->path != directory)
            all.push_back({name->path.substr(directory == "/" ? 1 : directory.size() + 1), name->rule});
    return all;
}

}  // namespace callgate::rules
