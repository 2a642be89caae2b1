// Judging one decoded call and putting the decision on record, before anything of it happens.
//
// The only way from a decoded call to an act: `decide` evaluates (the one evaluator), writes the record, and
// only then lets the handler act. If the record cannot be written, the call is denied (architecture.md,
// invariants 3, 4).
#pragma once

#include <cstdint>
#include <optional>

#include "rules/model/request.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/decide/supervision.hpp"

namespace callgate::calls {

/// What is judged. Views are kept alive by the handler until the decision was made.
struct Subject {
    rules::OperationSet operations;
    rules::Object object;
    std::optional<rules::FileObject> second_object;  // rename, link: the new name
    rules::OperationSet second_operations;
    std::optional<audit::FileIdentity> identity;
    /// Of a hard link: the object that gets the name, which `identity` is of. "" otherwise.
    std::string_view source;
    audit::CallInput input;
    /// What is asked about a move is also what the object could be used for at its new place: an answer then
    /// counts for this call alone, and no grant does.
    bool widens = false;
    /// How it happens where it is allowed.
    audit::Mechanism allowed_by = audit::Mechanism::on_behalf;
    /// Audit mode: what enforcement would have said, where it was found another way than by `judge`.
    std::optional<rules::Verdict> observed;
};

/// What the handler does after judging.
enum class Ruling : std::uint8_t {
    proceed,  // on record; act now
    refused,  // already answered
};

/// Evaluates and records; answers at once where it is denied. `sequence` receives the record's number (0:
/// none).
[[nodiscard]] Ruling decide(CallContext& context, const Subject& subject, std::uint64_t* sequence = nullptr);

/// As `decide`, for a verdict that was found another way (moves, terminals of the run).
[[nodiscard]] Ruling rule_on(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
                             std::uint64_t* sequence = nullptr);

/// As `rule_on`, but a refusal is left to the handler to answer: it lets go of what it holds first, so that
/// its caller never meets a second holder of a socket or file. 0: on record, act now. Otherwise the errno.
[[nodiscard]] int refusal(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
                          std::uint64_t* sequence);

/// The record of a verdict, as `rule_on` would write it. Views point into `subject`, `verdict` and the
/// buffers.
[[nodiscard]] audit::Decision decision_on(CallContext& context, const Subject& subject,
                                          const rules::Verdict& verdict);

/// Writes a record that is no plain ruling. False: it could not be written, and what it is about must not be;
/// or the grant that it names was taken back meanwhile, which is then on record.
[[nodiscard]] bool put_on_record(CallContext& context, const audit::Decision& decision,
                                 std::uint64_t* sequence);

/// Lets the kernel go on with a call that Landlock and the filter alone permit: recorded only with `--record
/// all`.
void let_continue(CallContext& context, const Subject& subject);

/// Audit mode, of one more object of a call that is then continued: records what enforcement would have said.
/// False: it could not be recorded, and the call must be refused.
[[nodiscard]] bool observe(CallContext& context, const Subject& subject);

/// The denial of what could not be judged or held, whatever the rules say.
[[nodiscard]] rules::Verdict failure(rules::Operation operation, int error);

/// Denies because something failed on our side (unreadable, overload): on record with the reason.
void deny_failure(CallContext& context, const Subject& subject, int error, std::string_view reason);

/// A second record: the judged act failed with `error`, or its answer no longer reached the caller.
void note_failed_act(CallContext& context, std::uint64_t sequence, int error);
void note_lost_answer(CallContext& context, std::uint64_t sequence);

/// Answers a call whose act returned `result`: 0, or -1 with errno, which is then on record too.
void answer_act(CallContext& context, std::uint64_t sequence, int result);

/// The verdict of the rules; the strictest over both objects.
[[nodiscard]] rules::Verdict judge(CallContext& context, const Subject& subject);

/// The same by the rules that audit mode observes. Not in enforce mode.
[[nodiscard]] rules::Verdict judge_observed(CallContext& context, const Subject& subject);

/// Whether the call is denied, or would be: what the kernel refuses by itself is then to be found out first.
[[nodiscard]] bool restricted(CallContext& context, const Subject& subject, const rules::Verdict& verdict);

}  // namespace callgate::calls
