// The hash of everything that was merged into a rule set: the same sources give the same hash in every run.
#pragma once

#include <string>
#include <string_view>

#include "rules/load/loader.hpp"
#include "rules/load/rule_sources.hpp"

namespace callgate::rules {

/// Covers the files' text (without comments, blanks and order of keys) and the additions of options.
/// Variables stay unexpanded and built-in rules are left out: both name places that differ from run to run.
[[nodiscard]] std::string digest(const RuleFiles& files, const RuleSources& sources);

}  // namespace callgate::rules
