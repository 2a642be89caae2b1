// Whether a unix socket of one name may be bound anywhere beneath a directory.
#pragma once

#include <string_view>

#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// Whether the rules allow binding a socket called `leaf` at every place beneath `directory`, for every
/// program, and close no such name to new files. Conservative: false if unsure. What `decide` knows beyond
/// the rules (/dev/shm) is taken into account.
[[nodiscard]] bool binds_everywhere_beneath(const RuleSet& rules, std::string_view directory,
                                            std::string_view leaf, UnixType type);

}  // namespace callgate::rules
