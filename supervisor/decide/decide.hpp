// The one gate between a decoded call and its effect: judge it, record the decision, and only then act.
//
// `decide` evaluates (the one evaluator), writes the record, and returns whether the handler may act. If the
// record cannot be written, the call is denied (docs/dev/architecture.md, invariants 3 and 4). Audit mode is
// a decorator of it (observe.hpp).
#pragma once

#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/decide/record.hpp"
#include "supervisor/decide/subject.hpp"

namespace callgate::calls {

/// The outcome of deciding. If it is allowed, it is on record: act now. Otherwise the handler first lets go
/// of the sockets and files that it holds, so that its caller never meets a second holder. Then it answers
/// with `error`. A parked call is no longer the handler's: answering it does nothing.
struct [[nodiscard]] Decision {
    int error = 0;
    std::uint64_t sequence = 0;  // the record's number; 0: none

    [[nodiscard]] bool allowed() const { return error == 0; }
};

/// Judges (by `judge`, else by evaluating the rules), asks where the rules ask, and records.
Decision decide(CallContext& context, const Subject& subject, const Judge& judge = {});

/// The same for a verdict of the enforced rules that the handler already has.
Decision decide_with(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
                     const Judge& judge = {});

/// The same for a handler that has asked by itself and was not parked.
Decision decide_with(CallContext& context, const Subject& subject, const Questioned& answer);

/// Lets the kernel continue a call that Landlock and the filter alone permit. Recorded where every call is.
void let_continue(CallContext& context, const Subject& subject);

/// Denies because something failed on our side (unreadable, overload): on record with the reason.
void deny_failure(CallContext& context, const Subject& subject, int error, std::string_view reason);

/// Answers a call whose act returned `result`: 0, or -1 with errno, which is then on record too.
void answer_act(CallContext& context, std::uint64_t sequence, int result);

}  // namespace callgate::calls
