// Shared by the parts of the rule parser: typed access to the tree, with a finding if the type is wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rules/load/json_tree.hpp"
#include "rules/load/rule_parser.hpp"

namespace callgate::rules {

/// State of the parser for one file.
struct ParseState {
    Findings& findings;
    PatternMaker& patterns;

    void error(const JsonValue& at, std::string message) const {
        findings.error(at.line(), at.column(), std::move(message));
    }
    void error(const JsonMember& at, std::string message) const {
        findings.error(at.line, at.column, std::move(message));
    }
};

/// Reports "expected WHAT, not VALUE" at the value.
void wrong_type(const ParseState& state, const JsonValue& value, std::string_view what);

/// The text of a string that is not empty; otherwise reports a finding.
[[nodiscard]] std::optional<std::string_view> want_text(const ParseState& state, const JsonValue& value,
                                                        std::string_view what);

[[nodiscard]] bool want_object(const ParseState& state, const JsonValue& value, std::string_view what);

/// Calls `each` for a single value, or for every element of a list that is not empty.
template <typename Each>
void for_each_value(const ParseState& state, const JsonValue& value, std::string_view what, Each each) {
    if (value.kind() != JsonValue::Kind::array) return each(value);
    if (value.items().empty())
        state.error(value, "an empty list means nothing: expected " + std::string(what));
    for (const JsonValue& item : value.items()) each(item);
}

/// Reports an unknown key, with the nearest known word, or else all of them.
void unknown_key(const ParseState& state, const JsonMember& member, KeyPlace place);

/// "unknown KIND \"word\": did you mean \"near\"?", else "expected a, b or c".
[[nodiscard]] std::string unknown_word(std::string_view kind, std::string_view word,
                                       std::span<const std::string_view> known);

/// Parses a condition of a rule or an exception whose operations are known. Keys that are no condition are
/// left to the caller.
[[nodiscard]] bool is_condition(std::string_view key);
void parse_condition(const ParseState& state, const JsonMember& member, OperationSet operations,
                     Conditions& into);
/// Checks conditions together: those that exclude each other, and protocols that do not fit.
void check_conditions(const ParseState& state, const JsonValue& object, const Conditions& conditions);

/// Parses an element of `rules`.
[[nodiscard]] std::optional<ParsedRule> parse_rule(const ParseState& state, const JsonValue& value);

void parse_limits(const ParseState& state, const JsonValue& value, Limits& into);
void parse_environment(const ParseState& state, const JsonValue& value, Environment& into);

}  // namespace callgate::rules
