// The calls one by one, as columns.
//
// Calls that are alike share a kind, which is kept once. So a call takes a few bytes here and in the page.
// The first allowed calls and the first refused calls are listed; the rest is only counted.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "rules/model/operation.hpp"
#include "supervisor/audit/report/outcome.hpp"
#include "supervisor/audit/report/strings.hpp"

namespace callgate::audit::report {

/// Texts are numbers of Strings, `process` of Processes.
struct CallKind {
    Outcome outcome = Outcome::allowed;
    std::uint32_t verdict = 0, operation = 0, rule = 0, decided_by = 0, mechanism = 0, error = 0, reason = 0,
                  program = 0, process = 0;
    std::uint32_t operations = 0;  // as bits, in the order of rules::Operation
    auto operator<=>(const CallKind&) const = default;
};

/// A call, or another record if `kind` is `event`.
struct Call {
    static constexpr std::uint32_t event = UINT32_MAX;
    std::int64_t time = 0;  // microseconds since the epoch
    std::uint64_t sequence = 0;
    std::uint32_t kind = 0;
    std::uint32_t object = 0;  // an event's text
};

class Calls {
public:
    static constexpr std::size_t max_of_each = 100'000, max_kinds = 200'000, max_events = 10'000;

    explicit Calls(Strings& strings) : strings_(&strings) {}

    void add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t process,
             std::uint32_t object);
    void add_event(const Entry& entry, std::int64_t time);

    [[nodiscard]] const std::vector<CallKind>& kinds() const { return kinds_; }
    [[nodiscard]] const std::vector<Call>& all() const { return calls_; }
    /// The number of calls that are not listed; `outcomes` stands for events.
    [[nodiscard]] std::uint64_t cut(Outcome outcome) const { return cut_[static_cast<std::size_t>(outcome)]; }
    [[nodiscard]] std::uint64_t events_cut() const { return events_cut_; }

private:
    Strings* strings_;
    std::map<CallKind, std::uint32_t> numbers_;
    std::vector<CallKind> kinds_;
    std::vector<Call> calls_;
    std::size_t allowed_ = 0, not_allowed_ = 0, events_ = 0;
    Tally cut_{};
    std::uint64_t events_cut_ = 0;
};

}  // namespace callgate::audit::report
