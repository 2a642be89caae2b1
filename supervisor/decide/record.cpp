#include "supervisor/decide/record.hpp"

#include "base/clock.hpp"
#include "base/test_switch.hpp"
#include "supervisor/approval/questions/question_queue.hpp"

namespace callgate::calls {

namespace {

audit::Caller caller_of(CallContext& context) {
    const kernel::Identity found = context.caller.cache.look_up(context.thread(), context.caller.executable);
    audit::Caller caller;
    caller.pid = context.thread();
    caller.parent = found.parent;
    caller.start_time = found.start_time;
    caller.uid = context.needs.uid;
    caller.executable = context.caller.executable;
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

void keep_first_error(CallContext& context, const boost::system::error_code& error) {
    int none = 0;
    context.needs.log_error.compare_exchange_strong(none, error.value());
}

/// A decision without a record (sequence 0) has no second one.
template <class Record>
void second_record(CallContext& context, const Record& what) {
    if (context.needs.log == nullptr || what.of_sequence == 0) return;
    const auto written = context.needs.log->record(what);
    if (!written) keep_first_error(context, written.error());
}

std::optional<std::uint64_t> write_record(CallContext& context, const audit::Decision& decision) {
    DecideNeeds& needs = context.needs;
    if (needs.log == nullptr) {
        needs.sink.note(decision);
        return 0;
    }
    const auto written = needs.log->record(decision);
    if (written) {
        needs.sink.note(decision);
        const bool due = needs.log->sync_due();
        if ((due || decision.verdict.action != rules::Action::allow) && needs.sync_log) needs.sync_log();
        return *written;
    }
    keep_first_error(context, written.error());
    if (!check_enabled("record-first")) return 0;
    audit::Decision unrecorded = decision;
    unrecorded.verdict.action = rules::Action::deny;
    unrecorded.verdict.decided_by = rules::DecidedBy::failure;
    unrecorded.verdict.rule = nullptr;
    unrecorded.reason = "the decision could not be recorded";
    needs.sink.note(unrecorded);
    return std::nullopt;
}

}  // namespace

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

std::optional<std::uint64_t> record(CallContext& context, const audit::Decision& decision) {
    if (decision.verdict.decided_by != rules::DecidedBy::grant || !context.granted)
        return write_record(context, decision);
    audit::Decision by_grant = decision;
    std::optional<std::uint64_t> written;
    const auto write = [&](const approval::QuestionQueue::Granted& now) {
        by_grant.question = now.question;
        by_grant.grant = now.grant;
        written = write_record(context, by_grant);
    };
    if (context.needs.questions->while_granted(*context.granted, decision.verdict.action, write))
        return written;
    by_grant.verdict.action = rules::Action::deny;
    by_grant.verdict.decided_by = rules::DecidedBy::failure;
    by_grant.mechanism = audit::Mechanism::error;
    by_grant.question = by_grant.grant = 0;
    by_grant.reason = "the answer that it went by was taken back meanwhile";
    static_cast<void>(write_record(context, by_grant));
    return std::nullopt;
}

void note_failed_act(CallContext& context, std::uint64_t sequence, int error) {
    second_record(context, audit::ActFailed{sequence, error});
}

void note_lost_answer(CallContext& context, std::uint64_t sequence) {
    second_record(context, audit::AnswerLost{sequence, "the caller no longer waits"});
}

}  // namespace callgate::calls
