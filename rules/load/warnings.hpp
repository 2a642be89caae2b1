// Warnings of `callgate check`: rules that do less, or more, than they seem to.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rules/load/diagnostic.hpp"
#include "rules/load/loader.hpp"
#include "rules/load/pattern.hpp"
#include "rules/match/rule_set.hpp"

namespace callgate::rules {

struct WarningContext {
    const LoadContext& host;
    PatternMaker& patterns;
    /// Files that the user named: warnings about shipped profiles alone do not concern the user.
    const std::set<std::string>& named;
};

void collect_warnings(const RuleSet& rules, const WarningContext& context, std::vector<Diagnostic>& out);

}  // namespace callgate::rules
