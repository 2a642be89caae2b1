#include "supervisor/decide/decide.hpp"

#include <csignal>

#include "base/test_switch.hpp"

namespace callgate::calls {

namespace {

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
    decision.reason = answer.reason;
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
