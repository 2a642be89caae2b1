// Rules that speak of an object and yet have no say in a request: what `explain` tells besides the rules that
// decide. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// What keeps the rule from matching, though everything else of it does.
enum class Obstacle : std::uint8_t {
    exception,  // the request is what its exception leaves out
    program,    // another program asks
    arguments,  // other arguments, or none are known
    protocol,   // another protocol than the rule's, stated or not
};

struct NearMiss {
    const Rule* rule = nullptr;
    Obstacle obstacle = Obstacle::exception;
};

/// In file order; a rule that misses by more than one thing is none.
[[nodiscard]] std::vector<NearMiss> near_misses(const RuleSet& rules, const Request& request,
                                                Operation operation);

}  // namespace callgate::rules
