#include "supervisor/decide/decide.hpp"

#include <csignal>

#include "base/clock.hpp"
#include "base/test_switch.hpp"
#include "rules/plan/plan_audit.hpp"
#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/kernel/acting_identity.hpp"

namespace callgate::calls {

namespace {

rules::Verdict evaluate_by(CallContext& context, const rules::RuleSet& rules, const Subject& subject) {
    if (rules.needs_program()) context.caller.look(context.thread());
    rules::Request request{subject.operations, subject.object, context.caller.executable,
                           subject.input.arguments, party_of(context)};
    auto* const endpoint = std::get_if<rules::Endpoint>(&request.object);
    if (endpoint != nullptr && rules.needs_own_address() && context.needs.is_own_address)
        endpoint->own = context.needs.is_own_address(endpoint->address);
    rules::Verdict verdict = rules.evaluate(request);
    if (verdict.action != rules::Action::allow && verdict.rule == nullptr && !rules.needs_program() &&
        rules.quiet_needs_program()) {
        context.caller.look(context.thread());
        request.program = context.caller.executable;
        verdict = rules.evaluate(request);
    }
    if (!subject.second_object || !check_enabled("second-name")) return verdict;
    request.operations = subject.second_operations;
    request.object = *subject.second_object;
    const rules::Verdict second = rules.evaluate(request);
    return second.action > verdict.action ? second : verdict;
}

/// Enforcement would not have let a socket for such an address be made at all.
rules::Verdict evaluate_observed(CallContext& context, const rules::RuleSet& rules, const Subject& subject) {
    rules::Verdict verdict = evaluate_by(context, rules, subject);
    if (verdict.action < rules::Action::deny && !rules::lets_exist(rules, subject.object)) {
        verdict.action = rules::Action::deny;
        verdict.decided_by = rules::DecidedBy::fallback;
        verdict.rule = nullptr;
    }
    return verdict;
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

/// A decision without a record (sequence 0) has no second one.
template <class Record>
void second_record(CallContext& context, const Record& what) {
    if (context.needs.log == nullptr || what.of_sequence == 0) return;
    const auto written = context.needs.log->record(what);
    if (!written) keep_first_error(context.needs, written.error());
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
        if (*written == 0) {
            if (needs.count_soon) needs.count_soon();
            return 0;
        }
        const bool due = needs.log->sync_due();
        if ((due || decision.verdict.action != rules::Action::allow) && needs.sync_log) needs.sync_log();
        return *written;
    }
    keep_first_error(needs, written.error());
    if (!check_enabled("record-first")) return 0;
    audit::Decision unrecorded = decision;
    unrecorded.verdict.action = rules::Action::deny;
    unrecorded.verdict.decided_by = rules::DecidedBy::failure;
    unrecorded.verdict.rule = nullptr;
    unrecorded.reason = "the decision could not be recorded";
    needs.sink.note(unrecorded);
    return std::nullopt;
}

int error_of(const rules::Verdict& verdict) { return verdict.error != 0 ? verdict.error : EACCES; }

/// An allowed call may act if its record was written.
Decision if_recorded(const std::optional<std::uint64_t>& sequence) {
    return sequence ? Decision{.sequence = *sequence} : Decision{.error = unrecorded_error};
}

/// Records the decision and makes it hold.
Decision enforce(CallContext& context, const audit::Decision& decision) {
    const auto sequence = record(context, decision);
    if (!sequence) return {.error = unrecorded_error};
    switch (decision.verdict.action) {
        case rules::Action::allow:
            return {.sequence = *sequence};
        case rules::Action::kill:
            // The caller first, and before any answer: it must not run on until the tree is stopped.
            ::kill(context.thread(), SIGKILL);
            context.needs.kill_tree();
            return {.error = EPERM, .sequence = *sequence};
        default:
            return {.error = error_of(decision.verdict), .sequence = *sequence};
    }
}

}  // namespace

rules::Verdict evaluate(CallContext& context, const Subject& subject) {
    return evaluate(context, context.needs.enforced, subject);
}

rules::Verdict evaluate(CallContext& context, const Basis& basis, const Subject& subject) {
    if (&basis != &context.needs.enforced) return evaluate_observed(context, basis.rules, subject);
    if (!check_enabled(context.entry.name)) return allow_all();
    const rules::Verdict verdict = evaluate_by(context, basis.rules, subject);
    if (verdict.action >= rules::Action::deny || !context.needs.refuses_object) return verdict;
    return context.needs.refuses_object(subject, verdict).value_or(verdict);
}

rules::Verdict verdict_on(CallContext& context, const Basis& basis, const Subject& subject,
                          const Judge& judge) {
    if (subject.settled) return *subject.settled;
    return judge ? judge(basis) : evaluate(context, basis, subject);
}

rules::Verdict allow_all() {
    rules::Verdict verdict;
    verdict.action = rules::Action::allow;
    return verdict;
}

rules::Verdict failure(rules::Operation operation, int error) {
    rules::Verdict verdict;
    verdict.action = rules::Action::deny;
    verdict.decided_by = rules::DecidedBy::failure;
    verdict.operation = operation;
    verdict.error = error;
    return verdict;
}

audit::Caller caller_of(const DecideNeeds& needs, CallerInfo& info, pid_t thread) {
    const kernel::Identity& found = info.look(thread);
    audit::Caller caller;
    caller.pid = thread;
    caller.parent = found.parent;
    caller.start_time = found.start_time;
    const kernel::Credentials* const changed = kernel::taken_identity();
    caller.uid = changed != nullptr ? changed->effective_uid : needs.uid;
    caller.executable = info.executable;
    caller.nested = needs.nested;
    return caller;
}

void keep_first_error(DecideNeeds& needs, const boost::system::error_code& error) {
    int none = 0;
    needs.log_error.compare_exchange_strong(none, error.value());
}

audit::Decision decision_on(CallContext& context, const Subject& subject, const rules::Verdict& verdict) {
    audit::Decision decision;
    decision.call = context.entry.name;
    decision.caller = caller_of(context.needs, context.caller, context.thread());
    if (context.needs.parties != nullptr) decision.caller.party = party_of(context);
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
    if (verdict.action == rules::Action::allow) decision.reason = subject.note;
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

bool records_every_call(const CallContext& context) {
    return context.needs.observation != nullptr || context.needs.record_mode == rules::RecordMode::all;
}

bool restricted(CallContext& context, const Subject& subject, const rules::Verdict& verdict) {
    if (verdict.action != rules::Action::allow) return true;
    const Observation* const observation = context.needs.observation;
    return observation != nullptr &&
           evaluate(context, observation->basis(), subject).action != rules::Action::allow;
}

Decision decide(CallContext& context, const Subject& subject, const Judge& judge) {
    const rules::Verdict verdict = verdict_on(context, context.needs.enforced, subject, judge);
    return decide_with(context, subject, verdict, judge);
}

Decision decide_with(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
                     const Judge& judge) {
    audit::Decision decision =
        decision_on(context, subject, check_enabled(context.entry.name) ? verdict : allow_all());
    if (decision.verdict.action < rules::Action::deny && check_enabled("caller-elsewhere") &&
        context.caller.cache.elsewhere(context.thread())) {
        // The thread may have ended, as when another one of its process executes.
        if (!context.call.waiting()) return {.error = ESRCH};
        // A path that was resolved here may mean something else there.
        decision.verdict = failure(decision.operation, EPERM);
        decision.mechanism = audit::Mechanism::error;
        decision.reason = "the caller has another root, user or mount namespace";
    }
    if (decision.verdict.action == rules::Action::allow && context.needs.observation != nullptr)
        return if_recorded(observe(context, subject, judge, subject.allowed_by));
    if (decision.verdict.action == rules::Action::ask) {
        if (context.asking == Asking::later) return {.error = EAGAIN};
        const Questioned answer = put_question(context, subject, verdict);
        return answer.parked ? Decision{.error = EPERM} : decide_with(context, subject, answer);
    }
    return enforce(context, decision);
}

Decision decide_with(CallContext& context, const Subject& subject, const Questioned& answer) {
    audit::Decision decision = decision_on(context, subject, answer.verdict);
    if (!answer.reason.empty()) decision.reason = answer.reason;
    return enforce(context, decision);
}

void let_continue(CallContext& context, const Subject& subject) {
    if (context.needs.observation != nullptr) {
        if (!observe(context, subject, {}, audit::Mechanism::continued))
            return context.fail(unrecorded_error);
    } else if (context.needs.record_mode == rules::RecordMode::all) {
        rules::Verdict verdict = evaluate(context, subject);
        verdict.action = rules::Action::allow;
        audit::Decision decision = decision_on(context, subject, verdict);
        decision.mechanism = audit::Mechanism::continued;
        decision.tier = audit::Tier::kernel;
        if (!record(context, decision)) return context.fail(unrecorded_error);
    }
    context.call.let_continue();
}

void deny_failure(CallContext& context, const Subject& subject, int error, std::string_view reason) {
    const auto first = subject.operations.empty() ? rules::Operation::read : *subject.operations.begin();
    audit::Decision decision = decision_on(context, subject, failure(first, error));
    decision.reason = reason;
    context.fail(record(context, decision) ? error : unrecorded_error);
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
