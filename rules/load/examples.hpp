// Examples are the rule set's own tests: "OPERATION OBJECT [by PROGRAM]".
#pragma once

#include <string>
#include <vector>

#include "rules/load/diagnostic.hpp"
#include "rules/load/pattern.hpp"
#include "rules/load/rule_parser.hpp"
#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// The requests of an example line: `localhost` gives one request for each of its addresses. Owns the bytes
/// that the requests view.
class ExampleLine {
public:
    static Expected<ExampleLine> parse(std::string_view line, PatternMaker& patterns);

    [[nodiscard]] std::vector<Request> requests() const;

private:
    OperationSet operations_;
    std::string path_, program_;
    std::optional<UnixType> unix_type_;
    std::vector<Endpoint> endpoints_;
    std::vector<std::string> host_;  // at most one
    std::vector<std::string> arguments_;
};

/// Evaluates each example. A wrong verdict becomes a finding at the example's line, with the rule that
/// decided.
void run_examples(const std::vector<ParsedExample>& examples, const RuleSet& rules, PatternMaker& patterns,
                  Findings& findings);

}  // namespace callgate::rules
