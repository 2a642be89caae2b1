#include "supervisor/audit/report/fix.hpp"

#include <optional>
#include <utility>

#include "rules/model/rule.hpp"
#include "supervisor/run/report.hpp"

namespace callgate::audit::report {

namespace {

/// The request in the form that the hint of a running supervisor takes. `rule` has only the name, because the
/// log holds nothing else of a rule.
Decision decision_of(const RecordedRequest& request, rules::Operation operation, const rules::Rule* rule) {
    Decision decision;
    decision.operation = operation;
    decision.operations = request.first;
    decision.operations |= request.second;
    decision.object = object_of(request);
    if (request.has_second) decision.second_object = rules::FileObject{request.second_object, false};
    decision.verdict.rule = rule;
    decision.verdict.decided_by = rule == nullptr ? rules::DecidedBy::fallback : rules::DecidedBy::rule;
    return decision;
}

/// The operation of callgate.operation. Empty for "write" and for unknown names.
std::optional<rules::Operation> single(const std::string& name) {
    const auto set = rules::parse_operations(name);
    std::optional<rules::Operation> found;
    if (!set) return found;
    for (const rules::Operation one : *set) {
        if (found) return std::nullopt;
        found = one;
    }
    return found;
}

Fix none(std::string why) { return {"", "", std::move(why)}; }

}  // namespace

Fix fix_for(const RecordedRequest& request, const std::string& operation) {
    if (request.rule.starts_with("callgate-"))
        return none("no rule can allow it: callgate's own files and processes are out of every run's reach");
    if (request.decided_by == "failure")
        return none("no rule decided: what callgate cannot judge, record or answer is denied");
    if (request.unlinked)
        return none("the object has no name left; only a default of allow allows it (--default allow)");
    const auto one = single(operation);
    if (!one) return none("the record does not say what was asked");
    rules::Rule rule;
    rule.id = request.rule;
    const bool by_default = request.rule.empty() || request.rule == "default";
    Fix fix{hint(decision_of(request, *one, by_default ? nullptr : &rule)), "", ""};
    if (!by_default && !fix.option.empty()) fix.also = hint(decision_of(request, *one, nullptr));
    if (fix.option.empty())
        fix.note = "no option names such an object; write a rule for it";
    else if (request.decided_by == "person" || request.decided_by == "grant" ||
             request.decided_by == "program")
        fix.note = "a " + std::string(request.decided_by == "program" ? "program" : "person") +
                   " denied it when asked; with this option nobody is asked";
    return fix;
}

}  // namespace callgate::audit::report
