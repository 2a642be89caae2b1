// Rule sets as text that is changed in place, for `callgate rules` and `audit suggest --into`.
#pragma once

#include <string>

#include "base/expected.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

inline constexpr std::size_t max_rule_file = 4U << 20;

/// Lines that are new or gone, as `diff` marks them; safe for a terminal.
[[nodiscard]] std::string difference(const std::string& before, const std::string& after);

/// Whether the next run would take the rule set; the problem is its first error.
[[nodiscard]] Expected<void> check_rules(const Places& places, const std::string& text,
                                         const std::string& file);

/// Writes the whole file or nothing. Throws Failure, also for a link: a run may have left it at that name.
void replace_rule_file(const std::string& file, const std::string& text);

}  // namespace callgate::cli
