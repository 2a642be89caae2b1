#include "rules/plan_obstacles.hpp"

#include <algorithm>

namespace callgate::rules::planning {

namespace {

std::size_t depth(std::string_view path) {
    return path == "/" ? 0 : static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
}

/// How many components a branch says before its first "**": at that depth it can match anywhere beneath.
std::size_t depth_of_wildcard(const Glob::Branch& branch) {
    const std::size_t wildcard = branch.residue.find("**");
    if (wildcard == std::string::npos) return std::string::npos;
    const auto slashes = std::count(branch.residue.begin(),
                                    branch.residue.begin() + static_cast<std::ptrdiff_t>(wildcard), '/');
    return depth(branch.head) + static_cast<std::size_t>(std::max<std::ptrdiff_t>(slashes, 1)) - 1;
}

/// Whether the rule's own exception surely frees the whole hierarchy (or the one file).
bool freed(const Obstacle& obstacle, std::string_view path, bool hierarchy) {
    if (obstacle.exception || !obstacle.rule->except) return false;
    const Conditions& except = *obstacle.rule->except;
    if (names_asker(except) || names_endpoints(except)) return false;
    return std::any_of(except.path.begin(), except.path.end(), [&](const Glob& glob) {
        return hierarchy ? glob.covers_hierarchy(path) : glob.matches(path);
    });
}

}  // namespace

Reach reach(const Obstacle& obstacle, std::string_view path) {
    if (freed(obstacle, path, true)) return Reach::none;
    if (obstacle.glob == nullptr) return Reach::everywhere;
    const Glob::Branch& branch = *obstacle.branch;
    if (branch.head != path && at_or_beneath(branch.head, path)) return Reach::inside;
    if (!at_or_beneath(path, branch.head)) return Reach::none;
    if (branch.literal) return branch.head == path ? Reach::itself : Reach::none;
    if (!obstacle.glob->may_match_beneath(path)) return Reach::none;
    return obstacle.wildcard <= depth(path) ? Reach::everywhere : Reach::inside;
}

bool hits_file(const Obstacle& obstacle, std::string_view path) {
    if (freed(obstacle, path, false)) return false;
    return obstacle.glob == nullptr || obstacle.glob->matches(path);
}

bool surely_shut(const Obstacle& obstacle, std::string_view path, bool hierarchy) {
    const Rule& rule = *obstacle.rule;
    if (obstacle.exception || rule.except || names_asker(rule.when)) return false;
    if (obstacle.glob == nullptr) return true;
    return hierarchy ? obstacle.glob->covers_hierarchy(path) : obstacle.glob->matches(path);
}

void add_obstacles(std::vector<Obstacle>& all, const Rule& rule, OperationSet operations,
                   const std::vector<Glob>& globs, bool exception) {
    if (globs.empty()) all.push_back({&rule, operations, nullptr, nullptr, 0, exception});
    for (const Glob& glob : globs)
        for (const Glob::Branch& branch : glob.branches())
            all.push_back({&rule, operations, &glob, &branch, depth_of_wildcard(branch), exception});
}

}  // namespace callgate::rules::planning
