// Whether one rule matches one request: the meaning of conditions, exceptions and protocols, rule by rule.
//
// Private to rules/rule_set, which finds by index what is tested here in full. Pure; allocates nothing.
#pragma once

#include "rules/model/request.hpp"
#include "rules/model/rule.hpp"

namespace callgate::rules {

/// All conditions that are present hold for `operation`. Each kind of object knows its own: a file `path`, an
/// endpoint `host`, `address` and `port`, a unix socket `unix`; a condition of another kind cannot hold. But
/// one that states both `path` and `unix` speaks of files by the one and of unix sockets by the other.
[[nodiscard]] bool conditions_hold(const Conditions& conditions, const Request& request, Operation operation);

/// As `conditions_hold`, but for those that an index has tested already: `path`, or `unix`.
[[nodiscard]] bool other_conditions_hold(const Conditions& conditions, const Request& request,
                                         Operation operation);

/// Whether the rule speaks of the object's protocol: what it states, else TCP and connected unix sockets for
/// allow and ask, everything for deny and kill.
[[nodiscard]] bool covers_protocol(const Rule& rule, const Object& object);

/// Whether the rule is there at all for objects like this one: a file without a name is not allowed by a
/// rule.
[[nodiscard]] bool may_decide(const Rule& rule, const Object& object, Action fallback);

/// The whole test: operation, conditions, protocol, name, exception.
[[nodiscard]] bool rule_matches(const Rule& rule, const Request& request, Operation operation,
                                Action fallback);

/// Element by element; "**" alone stands for any number of elements.
[[nodiscard]] bool arguments_match(std::span<const Glob> patterns, std::span<const std::string> arguments);

}  // namespace callgate::rules
