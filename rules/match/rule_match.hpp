// Whether one rule matches one request: the meaning of conditions, exceptions and protocols, rule by rule.
//
// Private to rules/match/rule_set, whose index finds the candidates for this full test. Pure; allocates
// nothing.
#pragma once

#include "rules/model/request.hpp"
#include "rules/model/rule.hpp"

namespace callgate::rules {

/// Whether all present conditions hold for `operation`. A file can satisfy `path`, an endpoint `host`,
/// `address` and `port`, a unix socket `unix`. A condition of another kind fails. With both `path` and
/// `unix`, the first applies to files and the second to unix sockets.
///
/// A host name that is looked up can still be connected to on any port and by either protocol. With `every`
/// the conditions must hold for all of these connects, else for one of them.
[[nodiscard]] bool conditions_hold(const Conditions& conditions, const Request& request, Operation operation,
                                   bool every);

/// Whether the rule's conditions hold, and whether its exception does. A look-up is allowed where some
/// connect may be, and denied only where every connect is.
[[nodiscard]] bool matches_when(const Rule& rule, const Request& request, Operation operation);
[[nodiscard]] bool excepted(const Rule& rule, const Request& request, Operation operation);

/// Like `conditions_hold`, without the conditions that an index has tested already: `path`, or `unix`.
[[nodiscard]] bool other_conditions_hold(const Conditions& conditions, const Request& request,
                                         Operation operation);

/// Whether the rule covers the object's protocol. If no protocol is stated, allow and ask cover TCP and
/// connected unix sockets; deny and kill cover everything.
[[nodiscard]] bool covers_protocol(const Rule& rule, const Object& object);

/// Whether the rule can decide about such an object: no rule allows a file without a name.
[[nodiscard]] bool may_decide(const Rule& rule, const Object& object, Action fallback);

/// The whole test: operation, conditions, protocol, name, exception.
[[nodiscard]] bool rule_matches(const Rule& rule, const Request& request, Operation operation,
                                Action fallback);

/// Matches element by element; "**" alone stands for any number of elements.
[[nodiscard]] bool arguments_match(std::span<const Glob> patterns, std::span<const std::string> arguments);

}  // namespace callgate::rules
