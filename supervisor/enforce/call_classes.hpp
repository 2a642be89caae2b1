// Classes of system calls: every call is in one class, on both architectures, and a test walks all numbers.
//
// Mediated calls stand in call_rows.hpp. For every other call, this page gives the reason why it needs no
// decision. Either Landlock enforces it, or the filter refuses its dangerous arguments or the whole call, or
// it reaches no object of a rule. An attacker controls number and arguments; the classes are constants.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "supervisor/enforce/call_table.hpp"
#include "supervisor/enforce/refused_calls.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::rules {
struct Plan;
}

namespace callgate::enforce {

enum class CallClass : std::uint8_t {
    mediated,   // notified if a rule contests it (call_rows.hpp)
    landlock,   // the kernel refuses access beyond the run
    arguments,  // the filter refuses some arguments (`refusals`, `socket`), the rest is harmless
    harmless,   // reaches no object of a rule
    closed,     // refused with any arguments
};

/// Calls that are not mediated, grouped by their common reason.
struct CallGroup {
    CallClass held = CallClass::harmless;
    int error = 0;  // for closed calls: an errno after which common software falls back
    std::string_view reason;
    std::string_view calls;                // names, separated by spaces
    const RefusedKind* refused = nullptr;  // closed calls that are put on record
};
[[nodiscard]] std::span<const CallGroup> call_groups();

/// The plans under which a refusal applies.
enum class When : std::uint8_t {
    always,
    metadata_limited,  // a rule, or the default, limits `metadata`
    signals_not_held,  // Landlock has no scope for signals (before ABI 6), or the rules know parties
    parties,           // the rules know parties
    run_servers,       // a rule is about servers of the run's own
};

/// Arguments for which the filter refuses a call that is not closed.
struct Refusal {
    std::string_view call;
    std::string_view what;  // the arguments, in common terms
    int error = 0;
    std::string_view why;
    std::array<ArgumentTest, 2> tests{};
    std::uint8_t test_count = 0;  // 0: any arguments
    When when = When::always;
    std::uint32_t number = no_number;      // of the call, on this architecture
    const RefusedKind* refused = nullptr;  // null: not put on record

    [[nodiscard]] bool applies(const rules::Plan& plan) const;
};
[[nodiscard]] std::span<const Refusal> refusals();

struct CallClassification {
    CallClass held = CallClass::mediated;
    int error = 0;
    std::string_view reason;  // empty for mediated calls
};
/// The class of a call by name; nothing if it has none.
[[nodiscard]] std::optional<CallClassification> classify(std::string_view name);

struct ClosedCall {
    std::string_view name;
    int error;
    std::string_view why;
};
/// The calls of this architecture that the filter refuses with any arguments.
[[nodiscard]] std::vector<ClosedCall> closed_calls();

/// The same by number, for the filter of each run.
struct ClosedNumber {
    std::uint32_t number;
    int error;
    const RefusedKind* refused;  // null: not put on record
};
[[nodiscard]] std::span<const ClosedNumber> closed_numbers();

/// Calls `visit` for each name of a group.
template <class Visit>
constexpr void for_each_call(const CallGroup& group, Visit visit) {
    std::string_view rest = group.calls;
    while (!rest.empty()) {
        const std::size_t end = rest.find(' ');
        visit(rest.substr(0, end));
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
}

}  // namespace callgate::enforce
