// A decision and its origin.
#pragma once

#include <cstdint>
#include <string_view>

#include "rules/model/operation.hpp"

namespace callgate::rules {

/// Ordered by strictness: of several, the greatest wins.
enum class Action : std::uint8_t { allow, ask, deny, kill };

enum class DecidedBy : std::uint8_t { rule, fallback, grant, person, program, timeout, failure };

/// The words of the log (docs/audit.md): "allow", ... and "rule", "default" (for fallback), "grant", ...
[[nodiscard]] std::string_view name(Action action);
[[nodiscard]] std::string_view name(DecidedBy decided_by);

struct Rule;

/// A decision. Views point into the rule set. Who keeps a verdict keeps the rules, or copies what it needs.
struct Verdict {
    Action action = Action::deny;
    DecidedBy decided_by = DecidedBy::fallback;
    /// The rule that named the verdict; null if the default decided.
    const Rule* rule = nullptr;
    /// The operation of the request that this verdict is about: the strictest one.
    Operation operation = Operation::read;
    /// errno of a denial: the rule's own, else EACCES for files, ECONNREFUSED for connect, EPERM for execute,
    /// EACCES for bind.
    int error = 0;
    /// The rules of a nested run decided, and not those of the run around it.
    bool nested = false;

    /// The rule's id, or "default".
    [[nodiscard]] std::string_view rule_name() const;
    /// The rule's reason; may be empty.
    [[nodiscard]] std::string_view reason() const;
};

}  // namespace callgate::rules
