// What `callgate check` warns of: rules that do less, or more, than they seem to.
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
    const LoadContext& machine;
    PatternMaker& patterns;
    /// Files that the user named: what shipped profiles say among themselves is not the user's concern.
    const std::set<std::string>& named;
};

void collect_warnings(const RuleSet& rules, const WarningContext& context, std::vector<Diagnostic>& out);

/// A path that the branch matches, for questions such as "is what this pattern protects readable?". Wildcards
/// become one plain name, so that it is an example, not the worst case.
[[nodiscard]] std::string sample_path(const Glob::Branch& branch);

/// Whether everything that `narrow` matches is matched by `wide` (conservative: false where unsure).
/// Exceptions of `narrow` do not matter, `wide` must have none.
[[nodiscard]] bool covers_rule(const Rule& wide, const Rule& narrow);

}  // namespace callgate::rules
