// The one gate between a decoded call and its effect: judge it, record the decision, and only then act.
//
// `decide` evaluates (the one evaluator), writes the record, and returns whether the handler may act. If the
// record cannot be written, the call is denied (docs/dev/architecture.md, invariants 3 and 4). Audit mode is
// a decorator of it (observe.hpp), and ask.hpp puts the questions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "rules/model/request.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/decide/context.hpp"

namespace callgate::calls {

struct Questioned;  // ask.hpp

/// A decoded call, as the rules see it. The handler keeps what the views point at alive until the decision.
struct Subject {
    rules::OperationSet operations;
    rules::Object object;
    std::optional<rules::FileObject> second_object;  // rename, link: the new name
    rules::OperationSet second_operations;
    std::optional<audit::FileIdentity> identity;
    /// Hard links only: path of the existing file, described by `identity`.
    std::string_view source;
    audit::CallInput input;
    /// The question about a move also covers what the object could be used for at its new name. Then an
    /// answer counts for this call alone, and no grant does.
    bool widens = false;
    /// How an allowed call happens.
    audit::Mechanism allowed_by = audit::Mechanism::on_behalf;
    /// The record says this of an allowed call: what it does otherwise than it was asked to.
    std::string_view note;
    /// A verdict that holds whatever the rules say (terminals of the run).
    std::optional<rules::Verdict> settled;
    /// Further objects that the same call uses (a script's interpreters). The verdict of the caller of
    /// `decide_with` covers them; audit mode judges and records each.
    std::vector<Subject> others;
};

/// The verdict of `basis` on a subject, in place of plain evaluation (renames, links). Audit mode calls it a
/// second time, with the rules that it observes.
using Judge = std::function<rules::Verdict(const Basis& basis)>;

/// The verdict of the rules that hold; the stricter one where there are two objects.
[[nodiscard]] rules::Verdict evaluate(CallContext& context, const Subject& subject);
/// The same by either set of rules.
[[nodiscard]] rules::Verdict evaluate(CallContext& context, const Basis& basis, const Subject& subject);

/// The verdict by `basis`: the settled one, else by `judge`, else by evaluation.
[[nodiscard]] rules::Verdict verdict_on(CallContext& context, const Basis& basis, const Subject& subject,
                                        const Judge& judge);

/// Stands for any verdict where a test has switched off judging this call.
[[nodiscard]] rules::Verdict allow_all();

/// Denies a call that could not be judged or held, whatever the rules say.
[[nodiscard]] rules::Verdict failure(rules::Operation operation, int error);

/// The errno of a call whose decision could not be recorded.
inline constexpr int unrecorded_error = EACCES;

/// Whether calls that Landlock and the filter alone permit are put on record too (audit mode, `--record
/// all`).
[[nodiscard]] bool records_every_call(const CallContext& context);

/// Whether the call is denied, or would be: the kernel's own errors then have to be found out first.
[[nodiscard]] bool restricted(CallContext& context, const Subject& subject, const rules::Verdict& verdict);

/// The identity of a calling thread. Its view points into `info`.
[[nodiscard]] audit::Caller caller_of(const DecideNeeds& needs, CallerInfo& info, pid_t thread);

/// Keeps the errno of the first record that could not be written.
void keep_first_error(DecideNeeds& needs, const boost::system::error_code& error);

/// The record of a verdict. Its views point into `subject`, `verdict` and the thread's buffers.
[[nodiscard]] audit::Decision decision_on(CallContext& context, const Subject& subject,
                                          const rules::Verdict& verdict);

/// Writes a record and returns its number; 0: there is no log. Returns nothing if it could not be written, or
/// if the grant that it names was revoked meanwhile, which is then on record. In both cases the call must
/// have no effect.
[[nodiscard]] std::optional<std::uint64_t> record(CallContext& context, const audit::Decision& decision);

/// Second records: the act that was decided failed with `error`, or its answer no longer reached the caller.
/// `sequence` is the decision's number; with 0 they do nothing.
void note_failed_act(CallContext& context, std::uint64_t sequence, int error);
void note_lost_answer(CallContext& context, std::uint64_t sequence);

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
