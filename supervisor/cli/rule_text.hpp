// Rule sets as text that is changed in place, for `callgate rules`, `audit suggest --into` and `learn`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/expected.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

inline constexpr std::size_t max_rule_file = 4U << 20;

/// Lines that are new or gone, as `diff` marks them; safe for a terminal.
[[nodiscard]] std::string difference(const std::string& before, const std::string& after);

/// The rules of the shipped profile `base`. They say what holds credentials, and what lets code in that runs
/// later, in this work directory.
[[nodiscard]] std::shared_ptr<const rules::RuleSet> base_rules(const Places& places,
                                                               const std::string& workdir,
                                                               const std::string& tmp);

/// The rules of a rule set's text for this work directory. `file` is its name. Throws Failure if it is none.
[[nodiscard]] std::shared_ptr<const rules::RuleSet> rules_of_text(const Places& places,
                                                                  const std::string& text,
                                                                  const std::string& file,
                                                                  const std::string& workdir,
                                                                  const std::string& tmp);

/// The text with these rules added as its last ones; everything else stays. Throws Failure if it is no rule
/// set, or would be none then. `file` is its name.
[[nodiscard]] std::string with_rules(const Places& places, const std::string& text,
                                     const std::vector<std::string>& rules, const std::string& file);

/// Whether the next run would take the rule set; the problem is its first error.
[[nodiscard]] Expected<void> check_rules(const Places& places, const std::string& text,
                                         const std::string& file);

/// Throws Failure for a link: a run may have left it at that name.
void refuse_link(const std::string& file);

/// Writes the whole file or nothing. Throws Failure, also for a link: a run may have left it at that name.
void replace_rule_file(const std::string& file, const std::string& text);

}  // namespace callgate::cli
