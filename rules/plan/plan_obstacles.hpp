// Patterns that keep Landlock from enforcing a hierarchy, and how far each reaches from a directory.
//
// Private to rules/plan. Answers are conservative: an obstacle is only left out if it surely cannot match at
// or beneath the directory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rules/plan/plan_parts.hpp"

namespace callgate::rules::planning {

/// A branch of a restricting rule's pattern, or of the allowing rule's own exception.
struct Obstacle {
    const Rule* rule = nullptr;
    OperationSet operations;
    const Glob* glob = nullptr;  // null: every path
    const Glob::Branch* branch = nullptr;
    std::size_t wildcard = 0;  // from this depth on it may match anywhere beneath
    bool exception = false;
};
using Obstacles = std::vector<const Obstacle*>;

/// `itself`: the directory alone; `inside`: some objects beneath it; `everywhere`: splitting leaves nothing.
enum class Reach { none, itself, inside, everywhere };

void add_obstacles(std::vector<Obstacle>& all, const Rule& rule, OperationSet operations,
                   const std::vector<Glob>& globs, bool exception);

/// Finds obstacles by their literal heads: of hundreds, few concern one path.
class ObstacleIndex {
public:
    ObstacleIndex() = default;
    explicit ObstacleIndex(std::vector<Obstacle> all);
    ObstacleIndex(ObstacleIndex&&) = default;
    ObstacleIndex& operator=(ObstacleIndex&&) = default;

    /// Adds the obstacles for some of `operations` that could match at, above or beneath `path`, in order.
    void near(std::string_view path, OperationSet operations, Obstacles& into) const;

private:
    struct Head {
        std::string_view path;
        std::uint32_t obstacle;  // its index
    };

    std::vector<Obstacle> all_;
    std::vector<Head> by_head_;  // in PathOrder; those for every path stand at "/"
};
[[nodiscard]] Reach reach(const Obstacle& obstacle, std::string_view directory);
[[nodiscard]] bool hits_file(const Obstacle& obstacle, std::string_view path);
/// Whether nothing there is allowed for any program. No permission is then lost.
[[nodiscard]] bool surely_shut(const Obstacle& obstacle, std::string_view path, bool hierarchy);
/// Whether the allowing rule's own exception covers all of it, for every program. Another rule may allow it.
[[nodiscard]] bool surely_excepted(const Obstacle& obstacle, std::string_view path, bool hierarchy);

}  // namespace callgate::rules::planning
