// A compiled rule set written out again, in the form that the loader reads.
//
// A nested run sends its rules so. Variables, links and `expand` were settled where they were loaded, so the
// text names only what stands there. Read without variables and links, it gives the same rules. A few ids
// differ: an id that occurs twice gets a number.
#pragma once

#include <string>

#include "base/expected.hpp"
#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// Problem: the rules tell an agent from its tools, which the text cannot carry.
[[nodiscard]] Expected<std::string> written_rules(const RuleSet& rules);

}  // namespace callgate::rules
