// Calls that the filter refuses by their arguments, put on record: each kind once per program, with a count
// at the end.
//
// The decision is the filter's, so there is nothing to evaluate. The first call of a program and kind is a
// record before its answer; further ones are counted. A program that probes in a loop therefore writes one
// record and one total. The target chooses the names of programs, so the number of programs is bounded; what
// is beyond the bound is counted under no program. Thread-safe, by one short lock.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/decide/context.hpp"
#include "supervisor/enforce/refused_calls.hpp"

namespace callgate::calls {

class Refusals {
public:
    /// A program and a kind of calls that it was refused.
    struct Seen {
        const enforce::RefusedKind* kind = nullptr;
        std::string program;  // path of the executable; "" beyond the bound
        std::string call;     // the first one: "socket"
        int error = 0;
        int pid = 0;
        std::uint64_t count = 0;
        std::uint64_t sequence = 0;  // of the first record; 0: no log
    };

    Refusals() = default;
    Refusals(const Refusals&) = delete;
    Refusals& operator=(const Refusals&) = delete;

    /// Counts a refused call of the given caller, and records the first of its kind. A record that cannot be
    /// written shows in `needs.log_error`; the call is refused either way.
    void note(DecideNeeds& needs, CallerInfo& caller, const kernel::Notification& call,
              const enforce::RefusedCalls::Refused& refused);
    /// Records the totals of what came more than once. Call it once, before the end of the run is recorded.
    /// Returns the errno of the first record that was not written, or 0.
    [[nodiscard]] int record_totals(audit::Log& log);
    /// In the order of their first calls.
    [[nodiscard]] std::vector<Seen> all() const;

private:
    static constexpr std::size_t max_seen = 256;

    mutable std::mutex lock_;
    std::vector<Seen> seen_;
    std::map<std::pair<const enforce::RefusedKind*, std::string>, std::size_t> index_;
};

}  // namespace callgate::calls
