#include "rules/plan/plan_obstacles.hpp"

#include <algorithm>

namespace callgate::rules::planning {

namespace {

std::size_t depth(std::string_view path) {
    return path == "/" ? 0 : static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
}

/// The number of components before a branch's first "**": from that depth on it can match anywhere.
std::size_t depth_of_wildcard(const Glob::Branch& branch) {
    const std::size_t wildcard = branch.remainder.find("**");
    if (wildcard == std::string::npos) return std::string::npos;
    const auto slashes = std::count(branch.remainder.begin(),
                                    branch.remainder.begin() + static_cast<std::ptrdiff_t>(wildcard), '/');
    return depth(branch.head) + static_cast<std::size_t>(std::max<std::ptrdiff_t>(slashes, 1)) - 1;
}

std::string_view head_of(const Obstacle& obstacle) {
    return obstacle.branch == nullptr ? std::string_view("/") : std::string_view(obstacle.branch->head);
}

/// Whether the rule's own exception surely covers the whole hierarchy (or the one file).
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
    if (obstacle.exception || rule.action == Action::ask || rule.except || names_asker(rule.when))
        return false;
    if (obstacle.glob == nullptr) return true;
    return hierarchy ? obstacle.glob->covers_hierarchy(path) : obstacle.glob->matches(path);
}

bool surely_excepted(const Obstacle& obstacle, std::string_view path, bool hierarchy) {
    if (!obstacle.exception || obstacle.glob == nullptr || names_asker(*obstacle.rule->except)) return false;
    return hierarchy ? obstacle.glob->covers_hierarchy(path) : obstacle.glob->matches(path);
}

void add_obstacles(std::vector<Obstacle>& all, const Rule& rule, OperationSet operations,
                   const std::vector<Glob>& globs, bool exception) {
    if (globs.empty()) all.push_back({&rule, operations, nullptr, nullptr, 0, exception});
    for (const Glob& glob : globs)
        for (const Glob::Branch& branch : glob.branches())
            all.push_back({&rule, operations, &glob, &branch, depth_of_wildcard(branch), exception});
}

ObstacleIndex::ObstacleIndex(std::vector<Obstacle> all) : all_(std::move(all)) {
    by_head_.reserve(all_.size());
    for (std::uint32_t index = 0; index < all_.size(); ++index)
        by_head_.push_back({head_of(all_[index]), index});
    std::stable_sort(by_head_.begin(), by_head_.end(),
                     [](const Head& one, const Head& other) { return PathOrder()(one.path, other.path); });
}

void ObstacleIndex::near(std::string_view path, OperationSet operations, Obstacles& into) const {
    std::vector<std::uint32_t> found;
    const auto first_at = [this](std::string_view wanted) {
        return std::lower_bound(
            by_head_.begin(), by_head_.end(), wanted,
            [](const Head& one, std::string_view path) { return PathOrder()(one.path, path); });
    };
    const auto take = [&](std::string_view wanted, auto belongs) {
        for (auto one = first_at(wanted); one != by_head_.end() && belongs(one->path); ++one)
            if (all_[one->obstacle].operations.intersects(operations)) found.push_back(one->obstacle);
    };
    take(path, [path](std::string_view head) { return at_or_beneath(head, path); });
    for (std::string_view above = path; above != "/";) {
        above = above.substr(0, std::max<std::size_t>(above.rfind('/'), 1));
        take(above, [above](std::string_view head) { return head == above; });
    }
    std::sort(found.begin(), found.end());
    for (const std::uint32_t one : found) into.push_back(&all_[one]);
}

}  // namespace callgate::rules::planning
