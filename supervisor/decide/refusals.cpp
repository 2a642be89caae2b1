#include "supervisor/decide/refusals.hpp"

#include "base/test_switch.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace callgate::calls {

void Refusals::note(DecideNeeds& needs, CallerInfo& caller, const kernel::Notification& call,
                    const enforce::RefusedCalls::Refused& refused) {
    if (!check_enabled("refusal-on-record")) return;
    const audit::Caller by = caller_of(needs, caller, call.thread);
    const std::lock_guard guard(lock_);
    std::string program(by.executable);
    // Beyond the bound each kind has one place more, without a program.
    if (seen_.size() >= max_seen && !index_.contains({refused.kind, program})) program.clear();
    const auto [found, first] = index_.emplace(std::pair{refused.kind, program}, seen_.size());
    if (!first) {
        ++seen_[found->second].count;
        return;
    }
    seen_.push_back({.kind = refused.kind,
                     .program = std::move(program),
                     .call = enforce::call_name(call.call),
                     .error = refused.error,
                     .pid = by.pid,
                     .count = 1});
    if (needs.log == nullptr) return;
    const auto written = needs.log->record(audit::Refused{.call = seen_.back().call,
                                                          .kind = refused.kind->name,
                                                          .consequence = refused.kind->consequence,
                                                          .caller = by,
                                                          .error = refused.error});
    if (written) {
        seen_.back().sequence = *written;
    } else {
        keep_first_error(needs, written.error());
    }
}

int Refusals::record_totals(audit::Log& log) {
    const std::lock_guard guard(lock_);
    int error = 0;
    for (const Seen& one : seen_) {
        if (one.count < 2) continue;
        audit::Refused total{.call = one.call,
                             .kind = one.kind->name,
                             .consequence = one.kind->consequence,
                             .error = one.error,
                             .count = one.count,
                             .of_sequence = one.sequence};
        total.caller.executable = one.program;
        total.caller.pid = one.pid;
        const auto written = log.record(total);
        if (!written && error == 0) error = written.error().value();
    }
    return error;
}

std::vector<Refusals::Seen> Refusals::all() const {
    const std::lock_guard guard(lock_);
    return seen_;
}

}  // namespace callgate::calls
