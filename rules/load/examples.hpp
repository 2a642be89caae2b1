// Examples: the rule set's own tests, "OPERATION OBJECT [by PROGRAM]".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rules/load/diagnostic.hpp"
#include "rules/load/pattern.hpp"
#include "rules/load/rule_parser.hpp"
#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// What an example needs besides the rules.
struct ExampleContext {
    PatternMaker& patterns;
    /// Addresses that stand for a host name, the same that the rules were given.
    std::function<std::vector<IpAddress>(const std::string& host)> resolve;
};

/// One line as the requests that it stands for: a host name is as many as it has addresses. Owns the bytes
/// that requests view.
class ExampleLine {
public:
    /// Nothing where the line cannot be read: `error` says why.
    static std::optional<ExampleLine> parse(std::string_view line, const ExampleContext& context,
                                            std::string& error);

    [[nodiscard]] std::vector<Request> requests() const;

private:
    OperationSet operations_;
    std::string path_, program_;
    std::optional<UnixType> unix_type_;
    std::vector<Endpoint> endpoints_;
    std::vector<std::string> arguments_;
};

/// Evaluates each example; a finding at the line of each whose verdict is another, with the rule that
/// decided.
void run_examples(const std::vector<ParsedExample>& examples, const RuleSet& rules,
                  const ExampleContext& context, Findings& findings);

}  // namespace callgate::rules
