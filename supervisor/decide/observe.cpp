#include "supervisor/decide/observe.hpp"

#include <algorithm>

namespace callgate::calls {

namespace {

struct Observed {
    const Subject* subject = nullptr;
    rules::Verdict verdict;
};

std::optional<std::uint64_t> record_observed(CallContext& context, const Observed& one,
                                             audit::Mechanism mechanism) {
    const Observation& observation = *context.needs.observation;
    const bool allowed = one.verdict.action == rules::Action::allow;
    const bool by_kernel = allowed && observation.left_to_kernel(*one.subject);
    const bool wanted = !allowed || (!by_kernel && observation.record_allowed());
    if (!wanted && context.needs.record_mode != rules::RecordMode::all) return 0;
    audit::Decision decision = decision_on(context, *one.subject, one.verdict);
    decision.mechanism = mechanism;
    if (by_kernel) decision.tier = audit::Tier::kernel;
    return record(context, decision);
}

bool asks_about_execution(const rules::RuleSet& rules) {
    return std::ranges::any_of(rules.rules(), [](const rules::Rule& rule) {
        return rule.action == rules::Action::ask && rule.operations.contains(rules::Operation::execute);
    });
}

}  // namespace

bool Observation::left_to_kernel(const Subject& subject) const {
    if (!plan_.notified.intersects(subject.operations | subject.second_operations)) return true;
    const auto* const file = std::get_if<rules::FileObject>(&subject.object);
    return file != nullptr && !file->unlinked && !subject.second_object &&
           grants_.allow(subject.operations, file->path);
}

std::optional<std::uint64_t> observe(CallContext& context, const Subject& subject, const Judge& judge,
                                     audit::Mechanism mechanism) {
    const Basis& basis = context.needs.observation->basis();
    const Observed first{&subject, verdict_on(context, basis, subject, judge)};
    if (subject.others.empty()) return record_observed(context, first, mechanism);
    // Enforcement names the strictest of several, and its record comes first. The others need rules of their
    // own: a user who allows the script alone meets the interpreter next.
    std::vector<Observed> all{first};
    for (const Subject& other : subject.others)
        all.push_back({&other, verdict_on(context, basis, other, {})});
    const auto decisive =
        std::ranges::max_element(all, {}, [](const Observed& one) { return one.verdict.action; });
    std::rotate(all.begin(), decisive, decisive + 1);
    const auto sequence = record_observed(context, all.front(), mechanism);
    for (std::size_t index = 1; sequence && index < all.size(); ++index) {
        if (all[index].verdict.action == rules::Action::allow) continue;
        if (!record_observed(context, all[index], audit::Mechanism::continued)) return std::nullopt;
    }
    return sequence;
}

bool arguments_count(const DecideNeeds& needs) {
    const rules::RuleSet& rules = needs.enforced.rules;
    return rules.needs_arguments() || asks_about_execution(rules) ||
           (needs.observation != nullptr && needs.observation->basis().rules.needs_arguments());
}

}  // namespace callgate::calls
