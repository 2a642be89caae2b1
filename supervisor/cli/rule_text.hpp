// Rule sets as text that is changed in place: what `callgate rules` and `audit suggest --into` share.
#pragma once

#include <string>

#include "supervisor/host/host.hpp"

namespace callgate::cli {

inline constexpr std::size_t max_rule_file = 4U << 20;

/// Lines that are new or gone, as `diff` marks them; safe for a terminal.
[[nodiscard]] std::string difference(const std::string& before, const std::string& after);

/// Why the rule set would not be taken at the next run: the first error; "" where it would be.
[[nodiscard]] std::string error_in_rules(const Places& places, const std::string& text,
                                         const std::string& file);

/// Whole or not at all; what a link points to is written, not the link. Throws Failure.
void replace_rule_file(const std::string& file, const std::string& text);

}  // namespace callgate::cli
