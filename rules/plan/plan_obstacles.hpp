// One pattern that keeps Landlock from holding a hierarchy, and how far it reaches seen from a directory.
//
// Private to rules/plan*.cpp. Answers are on the safe side: an obstacle is only left out where it surely
// cannot match at or beneath the directory.
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

/// `itself`: the directory alone; `inside`: some of what lies beneath; `everywhere`: splitting leaves
/// nothing.
enum class Reach { none, itself, inside, everywhere };

void add_obstacles(std::vector<Obstacle>& all, const Rule& rule, OperationSet operations,
                   const std::vector<Glob>& globs, bool exception);

/// Obstacles found by their literal heads: most of hundreds have nothing to do with one path.
class ObstacleIndex {
public:
    ObstacleIndex() = default;
    explicit ObstacleIndex(std::vector<Obstacle> all);
    ObstacleIndex(ObstacleIndex&&) = default;
    ObstacleIndex& operator=(ObstacleIndex&&) = default;

    /// Adds those for some of `operations` that could reach what lies at, above or beneath `path`, in order.
    void near(std::string_view path, OperationSet operations, Obstacles& into) const;

private:
    std::vector<Obstacle> all_;
    std::vector<std::uint32_t> by_head_;  // in PathOrder; those for every path stand at "/"
};
[[nodiscard]] Reach reach(const Obstacle& obstacle, std::string_view directory);
[[nodiscard]] bool hits_file(const Obstacle& obstacle, std::string_view path);
/// Whether nothing at all is allowed there, whoever asks: then nothing is lost.
[[nodiscard]] bool surely_shut(const Obstacle& obstacle, std::string_view path, bool hierarchy);
/// Whether the allowing rule's own exception takes all of it out, whoever asks: another rule may allow it.
[[nodiscard]] bool surely_excepted(const Obstacle& obstacle, std::string_view path, bool hierarchy);

}  // namespace callgate::rules::planning
