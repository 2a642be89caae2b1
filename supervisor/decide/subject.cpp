#include "supervisor/decide/subject.hpp"

#include "base/test_switch.hpp"
#include "rules/plan/plan_audit.hpp"

namespace callgate::calls {

namespace {

rules::Verdict evaluate_by(CallContext& context, const rules::RuleSet& rules, const Subject& subject) {
    if (rules.needs_program()) kernel::executable(context.thread(), context.caller.executable);
    rules::Request request{subject.operations, subject.object, context.caller.executable,
                           subject.input.arguments};
    rules::Verdict verdict = rules.evaluate(request);
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

}  // namespace

rules::Verdict evaluate(CallContext& context, const Subject& subject) {
    return evaluate(context, context.needs.enforced, subject);
}

rules::Verdict evaluate(CallContext& context, const Basis& basis, const Subject& subject) {
    if (&basis != &context.needs.enforced) return evaluate_observed(context, basis.rules, subject);
    if (!check_enabled(context.entry.name)) return allow_all();
    return evaluate_by(context, basis.rules, subject);
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

}  // namespace callgate::calls
