// Rules that answers proposed (`r`): files in the pending directory, which nothing in a run can reach.
//
// A proposal is as narrow as its question: these operations, this object, this program (and its arguments, of
// an execute). It has no effect until `callgate rules accept` has shown the difference and taken it over.
#pragma once

#include <string>
#include <vector>

#include "supervisor/approval/questions/question_view.hpp"
#include "base/result.hpp"

namespace callgate::approval {

/// The rule as it would stand in a rule set, on one line, without a comma. "" where none can say it (names
/// that are not UTF-8).
[[nodiscard]] std::string proposed_rule(const QuestionView& shown);

/// Writes it to a new file beneath `config`/pending (made where absent); the proposal's name.
[[nodiscard]] Result<std::string> propose(const std::string& config, const QuestionView& shown);

struct Pending {
    std::string name, rule;
};
[[nodiscard]] std::vector<Pending> pending_rules(const std::string& config);
[[nodiscard]] bool drop_pending(const std::string& config, const std::string& name);

/// The text of a rule set with `rule` as its last one; everything else stays byte for byte. Nothing where the
/// text has no list of rules that it could be put into.
[[nodiscard]] std::optional<std::string> with_rule(const std::string& text, const std::string& rule);
/// A new rule set that holds nothing but the rule.
[[nodiscard]] std::string fresh_rule_set(const std::string& rule);

}  // namespace callgate::approval
