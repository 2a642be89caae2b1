// Rules and requests in one line each, for tests.
#pragma once

#include <doctest/doctest.h>

#include "rules/match/rule_set.hpp"
#include "rules/model/address.hpp"

namespace callgate::rules::tests {

inline Glob glob(std::string_view pattern, GlobKind kind = GlobKind::path) {
    const auto compiled = Glob::compile(pattern, kind);
    REQUIRE_MESSAGE(compiled.has_value(), pattern << ": " << compiled.error().text);
    return *compiled;
}

inline IpAddress address(std::string_view text) {
    const auto parsed = parse_address(text);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().text);
    return *parsed;
}

inline Cidr block(std::string_view text) {
    const auto parsed = parse_cidr(text);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().text);
    return *parsed;
}

inline Rule rule(std::string id, Action action, OperationSet operations) {
    Rule made;
    made.id = std::move(id);
    made.action = action;
    made.operations = operations;
    return made;
}

inline Rule path_rule(std::string id, Action action, OperationSet operations, std::string_view pattern) {
    Rule made = rule(std::move(id), action, operations);
    made.when.path.push_back(glob(pattern));
    return made;
}

inline Request file(OperationSet operations, std::string_view path, std::string_view program = "") {
    return {operations, FileObject{path, false}, program, {}};
}

inline Request endpoint(std::string_view to, std::uint16_t port, Protocol protocol = Protocol::tcp,
                        Operation operation = Operation::connect) {
    return {operation, Endpoint{address(to), port, protocol}, "", {}};
}

inline Request socket(std::string_view name, UnixType type = UnixType::stream,
                      Operation operation = Operation::connect) {
    return {operation, UnixObject{name, type}, "", {}};
}

/// "deny secrets", "allow default".
inline std::string verdict(const RuleSet& rules, const Request& request) {
    const Verdict found = rules.evaluate(request);
    CHECK((found.decided_by == DecidedBy::rule) == (found.rule != nullptr));
    return std::string(name(found.action)) + " " + std::string(found.rule_name());
}

inline RuleSet make(std::vector<Rule> rules, Action fallback = Action::deny) {
    return {std::move(rules), fallback};
}

}  // namespace callgate::rules::tests
