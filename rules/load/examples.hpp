// Examples are the rule set's own tests: "OPERATION OBJECT [by PROGRAM]".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rules/load/diagnostic.hpp"
#include "rules/load/pattern.hpp"
#include "rules/load/rule_parser.hpp"
#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// Input of an example besides the rules.
struct ExampleContext {
    PatternMaker& patterns;
    /// Returns the addresses of a host name, the same ones that the rules were given.
    std::function<std::vector<IpAddress>(const std::string& host)> resolve;
};

/// The requests of an example line: a host name gives one request for each of its addresses. Owns the bytes
/// that the requests view.
class ExampleLine {
public:
    static Expected<ExampleLine> parse(std::string_view line, const ExampleContext& context);

    [[nodiscard]] std::vector<Request> requests() const;

private:
    OperationSet operations_;
    std::string path_, program_;
    std::optional<UnixType> unix_type_;
    std::vector<Endpoint> endpoints_;
    std::vector<std::string> arguments_;
};

/// Evaluates each example. A wrong verdict becomes a finding at the example's line, with the rule that
/// decided.
void run_examples(const std::vector<ParsedExample>& examples, const RuleSet& rules,
                  const ExampleContext& context, Findings& findings);

}  // namespace callgate::rules
