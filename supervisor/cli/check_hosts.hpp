// Findings of `callgate check` about rules with hosts: what they open, and whether the names exist.
//
// The rule file may come from anybody, so a name in it may be one that its author watches. What is looked up
// are whole names from the file alone, at most `max_looked_up`, and for a few seconds.
#pragma once

#include <string>
#include <vector>

#include "rules/load/loader.hpp"

namespace callgate::cli {

inline constexpr std::size_t max_looked_up = 64;

/// Warnings about the rules of `file` itself, in the order of the rules.
[[nodiscard]] std::vector<rules::Diagnostic> host_warnings(const rules::RuleSet& rules,
                                                           const std::string& file);

}  // namespace callgate::cli
