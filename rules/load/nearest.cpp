// Edit distance with transpositions (optimal string alignment), for suggestions in messages.
#include <algorithm>
#include <vector>

#include "rules/load/loader.hpp"

namespace callgate::rules {
namespace {

std::size_t distance(std::string_view left, std::string_view right) {
    std::vector<std::vector<std::size_t>> cost(left.size() + 1, std::vector<std::size_t>(right.size() + 1));
    for (std::size_t row = 0; row <= left.size(); ++row) cost[row][0] = row;
    for (std::size_t column = 0; column <= right.size(); ++column) cost[0][column] = column;
    for (std::size_t row = 1; row <= left.size(); ++row) {
        for (std::size_t column = 1; column <= right.size(); ++column) {
            const std::size_t change = left[row - 1] == right[column - 1] ? 0 : 1;
            std::size_t best = std::min(
                {cost[row - 1][column] + 1, cost[row][column - 1] + 1, cost[row - 1][column - 1] + change});
            const bool swapped = row > 1 && column > 1 && left[row - 1] == right[column - 2] &&
                                 left[row - 2] == right[column - 1];
            if (swapped) best = std::min(best, cost[row - 2][column - 2] + 1);
            cost[row][column] = best;
        }
    }
    return cost[left.size()][right.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> known) {
    // A hostile key may be a megabyte long; no known word is.
    constexpr std::size_t longest = 64;
    if (word.size() > longest) return std::nullopt;
    std::optional<std::string> best;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (std::string_view candidate : known) {
        const std::size_t found = distance(word, candidate);
        if (found >= best_distance || found >= candidate.size()) continue;
        best_distance = found;
        best = candidate;
    }
    return best;
}

}  // namespace callgate::rules
