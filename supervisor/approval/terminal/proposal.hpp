// Rules that answers proposed (`r`): files in the pending directory, which nothing in a run can reach.
//
// A proposal is as narrow as its question: these operations, this object, this program, and the arguments of
// an execute. It has no effect until `callgate rules accept` has added it to the rules and shown the
// difference.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "supervisor/approval/questions/question_view.hpp"

namespace callgate::approval {

/// The rule as it would stand in a rule set, on one line, without a comma. EILSEQ if a name is not UTF-8: no
/// rule can name it.
[[nodiscard]] Result<std::string> proposed_rule(const QuestionView& shown);

/// Writes the rule to a file beneath `config`/pending, which is made if absent. Returns the proposal's name.
[[nodiscard]] Result<std::string> propose(const std::string& config, const QuestionView& shown);

struct Pending {
    std::string name, rule;
};
[[nodiscard]] std::vector<Pending> pending_rules(const std::string& config);
[[nodiscard]] bool drop_pending(const std::string& config, const std::string& name);

/// The text of a rule set with `rule` added as its last one; everything else stays byte for byte. Nothing if
/// the text has no list of rules.
[[nodiscard]] std::optional<std::string> with_rule(const std::string& text, const std::string& rule);
/// The rules of a rule set as they stand in its text, in their order. Nothing if the text has no list of
/// rules.
[[nodiscard]] std::optional<std::vector<std::string>> rules_in(const std::string& text);
/// The text without the rule of this index, and without its comma; everything else stays byte for byte.
/// Nothing if there is no such rule.
[[nodiscard]] std::optional<std::string> without_rule(const std::string& text, std::size_t index);
/// A new rule set with this rule alone.
[[nodiscard]] std::string fresh_rule_set(const std::string& rule);

}  // namespace callgate::approval
