// `--except RULE=PATTERN`: an exception for one run. The footer of a run offers it after a denial by a rule.
#pragma once

#include <string>
#include <vector>

#include "rules/load/pattern.hpp"
#include "rules/model/rule.hpp"

namespace callgate::rules {

/// Adds the exception to every rule of that id.
[[nodiscard]] Expected<void> add_exception(std::vector<Rule>& rules, const std::string& id,
                                           const std::string& pattern, PatternMaker& patterns);

}  // namespace callgate::rules
