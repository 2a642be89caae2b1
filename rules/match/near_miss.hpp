// Rules that name an object but do not match a request, because of one condition. `explain` shows them beside
// the rules that decide. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// The single reason for which the rule does not match.
enum class Obstacle : std::uint8_t {
    exception,  // its exception matches the request
    program,    // the program is different
    arguments,  // the arguments are different or unknown
    protocol,   // the protocol is not one of the rule's
    party,      // it is for the other party
    server,     // it is no server of the run's own, as far as is known
};

struct NearMiss {
    const Rule* rule = nullptr;
    Obstacle obstacle = Obstacle::exception;
};

/// In file order. A rule that misses for two reasons or more is left out.
[[nodiscard]] std::vector<NearMiss> near_misses(const RuleSet& rules, const Request& request,
                                                Operation operation);

}  // namespace callgate::rules
