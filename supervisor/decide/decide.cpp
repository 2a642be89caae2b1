#include "supervisor/decide/decide.hpp"

#include <sys/stat.h>

#include <csignal>

#include "rules/plan/plan_audit.hpp"
#include "base/test_switch.hpp"
#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "base/clock.hpp"

namespace callgate::calls {

namespace {

/// Who asks, for the record.
audit::Caller caller_of(CallContext& context) {
    const kernel::Identity found =
        context.buffers.callers.look_up(context.thread(), context.buffers.executable);
    audit::Caller caller;
    caller.pid = context.thread();
    caller.parent = found.parent;
    caller.start_time = found.start_time;
    caller.uid = context.run.uid;
    caller.executable = context.buffers.executable;
    return caller;
}

audit::Mechanism mechanism_of(const Subject& subject, rules::Action action) {
    switch (action) {
        case rules::Action::allow:
            return subject.allowed_by;
        case rules::Action::kill:
            return audit::Mechanism::kill;
        default:
            return audit::Mechanism::error;
    }
}

/// Of the records that could not be written the first says why.
void keep_first_error(CallContext& context, const boost::system::error_code& error) {
    int none = 0;
    context.run.log_error.compare_exchange_strong(none, error.value());
}

/// What came of a decision that is on record (sequence 0: none is).
template <class Record>
void second_record(CallContext& context, const Record& record) {
    if (context.run.log == nullptr || record.of_sequence == 0) return;
    const auto written = context.run.log->record(record);
    if (!written) keep_first_error(context, written.error());
}

/// In place of any verdict where a test has switched the judging of this call off.
rules::Verdict unjudged() {
    rules::Verdict verdict;
    verdict.action = rules::Action::allow;
    return verdict;
}

constexpr int unrecorded_error = EACCES;

rules::Verdict evaluate(CallContext& context, const rules::RuleSet& rules, const Subject& subject) {
    if (rules.needs_program()) kernel::executable(context.thread(), context.buffers.executable);
    rules::Request request{subject.operations, subject.object, context.buffers.executable,
                           subject.input.arguments};
    rules::Verdict verdict = rules.evaluate(request);
    if (!subject.second_object || !check_enabled("second-name")) return verdict;
    request.operations = subject.second_operations;
    request.object = *subject.second_object;
    const rules::Verdict second = rules.evaluate(request);
    return second.action > verdict.action ? second : verdict;
}

/// Whether enforcement would have left the call to the kernel: it is allowed, and by Landlock or the filter
/// alone.
bool left_to_kernel(const Observation& observed, const Subject& subject) {
    if (!observed.plan.notified.intersects(subject.operations | subject.second_operations)) return true;
    const auto* const file = std::get_if<rules::FileObject>(&subject.object);
    return file != nullptr && !file->unlinked && !subject.second_object &&
           observed.grants.allow(subject.operations, file->path);
}

/// Audit mode, of a call that goes on: records what enforcement would have said. False: it could not be
/// recorded, and so must not be.
bool record_observed(CallContext& context, const Subject& subject, audit::Mechanism mechanism,
                     std::uint64_t* sequence) {
    const Observation& observed = *context.run.observed;
    const rules::Verdict verdict = subject.observed ? *subject.observed : judge_observed(context, subject);
    const bool allowed = verdict.action == rules::Action::allow;
    const bool by_kernel = allowed && left_to_kernel(observed, subject);
    if (context.run.plan.record != rules::RecordMode::all && allowed && (by_kernel || !observed.allowed_too))
        return true;
    audit::Decision decision = decision_on(context, subject, verdict);
    decision.mechanism = mechanism;
    if (by_kernel) decision.tier = audit::Tier::kernel;
    return put_on_record(context, decision, sequence);
}

bool write_record(CallContext& context, const audit::Decision& decision, std::uint64_t* sequence);

int error_of(const rules::Verdict& verdict) { return verdict.error != 0 ? verdict.error : EACCES; }

}  // namespace

WithUmask::WithUmask(WorkerBuffers& buffers, unsigned mask) {
    if (!buffers.shares_umask && buffers.umask == mask) return;
    static std::mutex one_at_a_time;
    if (buffers.shares_umask) lock_ = std::unique_lock(one_at_a_time);
    before_ = ::umask(static_cast<mode_t>(mask));
    buffers.umask = mask;
}

WithUmask::~WithUmask() {
    if (lock_) ::umask(static_cast<mode_t>(before_));
}

audit::Decision decision_on(CallContext& context, const Subject& subject, const rules::Verdict& verdict) {
    audit::Decision decision;
    decision.call = context.entry.name;
    decision.caller = caller_of(context);
    decision.input = subject.input;
    decision.operation = verdict.operation;
    decision.operations = subject.operations | subject.second_operations;
    decision.first_operations = subject.operations;
    decision.second_operations = subject.second_operations;
    decision.object = subject.object;
    decision.second_object = subject.second_object;
    decision.identity = subject.identity;
    decision.verdict = verdict;
    decision.mechanism = mechanism_of(subject, verdict.action);
    if (verdict.decided_by > rules::DecidedBy::fallback && verdict.decided_by < rules::DecidedBy::failure) {
        decision.question = context.question;
        decision.grant = context.grant;
    }
    decision.duration_ns = monotonic_ns() - context.started_ns;
    return decision;
}

bool put_on_record(CallContext& context, const audit::Decision& decision, std::uint64_t* sequence) {
    if (decision.verdict.decided_by != rules::DecidedBy::grant || !context.granted)
        return write_record(context, decision, sequence);
    audit::Decision by_grant = decision;
    bool written = false;
    const auto write = [&](const approval::QuestionQueue::Granted& now) {
        by_grant.question = now.question;
        by_grant.grant = now.grant;
        written = write_record(context, by_grant, sequence);
    };
    if (context.run.broker->while_granted(*context.granted, decision.verdict.action, write)) return written;
    by_grant.verdict.action = rules::Action::deny;
    by_grant.verdict.decided_by = rules::DecidedBy::failure;
    by_grant.mechanism = audit::Mechanism::error;
    by_grant.question = by_grant.grant = 0;
    by_grant.reason = "the answer that it went by was taken back meanwhile";
    static_cast<void>(write_record(context, by_grant, nullptr));
    return false;
}

namespace {

bool write_record(CallContext& context, const audit::Decision& decision, std::uint64_t* sequence) {
    if (context.run.log == nullptr) {
        context.run.report.note(decision);
        return true;
    }
    const auto written = context.run.log->record(decision);
    if (written) {
        context.run.report.note(decision);
        if (sequence != nullptr) *sequence = *written;
        const bool due = context.run.log->sync_due();
        if ((due || decision.verdict.action != rules::Action::allow) && context.run.sync_log)
            context.run.sync_log();
        return true;
    }
    keep_first_error(context, written.error());
    if (!check_enabled("record-first")) return true;
    audit::Decision unrecorded = decision;
    unrecorded.verdict.action = rules::Action::deny;
    unrecorded.verdict.decided_by = rules::DecidedBy::failure;
    unrecorded.verdict.rule = nullptr;
    unrecorded.reason = "the decision could not be recorded";
    context.run.report.note(unrecorded);
    return false;
}

}  // namespace

rules::Verdict judge(CallContext& context, const Subject& subject) {
    if (!check_enabled(context.entry.name)) return unjudged();
    return evaluate(context, context.run.rules, subject);
}

rules::Verdict judge_observed(CallContext& context, const Subject& subject) {
    const Observation& observed = *context.run.observed;
    rules::Verdict verdict = evaluate(context, observed.rules, subject);
    if (verdict.action < rules::Action::deny && !rules::lets_exist(observed.rules, subject.object)) {
        verdict.action = rules::Action::deny;
        verdict.decided_by = rules::DecidedBy::fallback;
        verdict.rule = nullptr;
    }
    return verdict;
}

bool restricted(CallContext& context, const Subject& subject, const rules::Verdict& verdict) {
    if (verdict.action != rules::Action::allow) return true;
    return context.run.observed != nullptr && judge_observed(context, subject).action != rules::Action::allow;
}

Ruling decide(CallContext& context, const Subject& subject, std::uint64_t* sequence) {
    return rule_on(context, subject, judge(context, subject), sequence);
}

Ruling rule_on(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
               std::uint64_t* sequence) {
    const int error = refusal(context, subject, verdict, sequence);
    if (error == 0) return Ruling::proceed;
    context.fail(error);
    return Ruling::refused;
}

namespace {

/// On record, then: 0 to act, or the errno.
int carry_out(CallContext& context, const audit::Decision& decision, std::uint64_t* sequence) {
    if (!put_on_record(context, decision, sequence)) return unrecorded_error;
    switch (decision.verdict.action) {
        case rules::Action::allow:
            return 0;
        case rules::Action::kill:
            // The caller first, and before any answer: it must not run on until the tree is stopped.
            ::kill(context.thread(), SIGKILL);
            context.run.kill_tree();
            return EPERM;
        default:
            return error_of(decision.verdict);
    }
}

}  // namespace

int refusal(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
            std::uint64_t* sequence) {
    audit::Decision decision =
        decision_on(context, subject, check_enabled(context.entry.name) ? verdict : unjudged());
    if (decision.verdict.action < rules::Action::deny && check_enabled("caller-elsewhere") &&
        context.buffers.callers.elsewhere(context.thread())) {
        // What was resolved here may not be what it means there.
        decision.verdict = failure(decision.operation, EPERM);
        decision.mechanism = audit::Mechanism::error;
        decision.reason = "the caller has another root, user or mount namespace";
    }
    if (context.run.observed != nullptr && decision.verdict.action == rules::Action::allow)
        return record_observed(context, subject, subject.allowed_by, sequence) ? 0 : unrecorded_error;
    if (decision.verdict.action == rules::Action::ask) {
        if (context.asking == Asking::later) return EAGAIN;
        const Questioned answer = put_question(context, subject, verdict);
        return answer.parked ? EPERM : refusal_as_answered(context, subject, answer, sequence);
    }
    return carry_out(context, decision, sequence);
}

int refusal_as_answered(CallContext& context, const Subject& subject, const Questioned& answer,
                        std::uint64_t* sequence) {
    audit::Decision decision = decision_on(context, subject, answer.verdict);
    decision.reason = answer.reason;
    return carry_out(context, decision, sequence);
}

bool observe(CallContext& context, const Subject& subject) {
    return record_observed(context, subject, audit::Mechanism::continued, nullptr);
}

void let_continue(CallContext& context, const Subject& subject) {
    if (context.run.observed != nullptr) {
        if (!observe(context, subject)) return context.fail(unrecorded_error);
    } else if (context.run.plan.record == rules::RecordMode::all) {
        rules::Verdict verdict = judge(context, subject);
        verdict.action = rules::Action::allow;
        audit::Decision decision = decision_on(context, subject, verdict);
        decision.mechanism = audit::Mechanism::continued;
        decision.tier = audit::Tier::kernel;
        if (!put_on_record(context, decision, nullptr)) return context.fail(unrecorded_error);
    }
    context.call.let_continue();
}

rules::Verdict failure(rules::Operation operation, int error) {
    rules::Verdict verdict;
    verdict.action = rules::Action::deny;
    verdict.decided_by = rules::DecidedBy::failure;
    verdict.operation = operation;
    verdict.error = error;
    return verdict;
}

void deny_failure(CallContext& context, const Subject& subject, int error, std::string_view reason) {
    const auto first = subject.operations.empty() ? rules::Operation::read : *subject.operations.begin();
    audit::Decision decision = decision_on(context, subject, failure(first, error));
    decision.reason = reason;
    context.fail(put_on_record(context, decision, nullptr) ? error : unrecorded_error);
}

void note_failed_act(CallContext& context, std::uint64_t sequence, int error) {
    second_record(context, audit::ActFailed{sequence, error});
}

void note_lost_answer(CallContext& context, std::uint64_t sequence) {
    second_record(context, audit::AnswerLost{sequence, "the caller no longer waits"});
}

void answer_act(CallContext& context, std::uint64_t sequence, int result) {
    if (result == 0) {
        if (!context.call.succeed(0)) note_lost_answer(context, sequence);
        return;
    }
    const int error = errno;
    note_failed_act(context, sequence, error);
    context.fail(error);
}

}  // namespace callgate::calls
