// Audit mode's plan: Landlock and the filter enforce little, and every call is notified that the observed
// rules could decide.
#include "rules/plan/plan_audit.hpp"

#include <algorithm>

namespace callgate::rules {

namespace {

void add_contest(Plan& plan, const Contest& more) {
    plan.notified |= more.operation;
    const auto found = std::find_if(plan.contests.begin(), plan.contests.end(),
                                    [&more](const Contest& one) { return one.operation == more.operation; });
    if (found == plan.contests.end()) {
        plan.contests.push_back(more);
        return;
    }
    for (const std::string& id : more.because) {
        if (std::find(found->because.begin(), found->because.end(), id) == found->because.end())
            found->because.push_back(id);
    }
    if (!more.why.empty() && found->why.find(more.why) == std::string::npos)
        found->why += (found->why.empty() ? "" : " and ") + more.why;
}

}  // namespace

PlanInput observing(PlanInput input) {
    if (input.record == RecordMode::minimal) input.record = RecordMode::contested;
    return input;
}

Plan make_audit_plan(const RuleSet& enforced, const Plan& observed, const PlanInput& input) {
    Plan plan = make_plan(enforced, observing(input));
    for (const Contest& contest : observed.contests) add_contest(plan, contest);
    // Datagrams are observed, not refused.
    plan.udp = plan.unix_datagram = true;
    plan.sends_held = plan.messages_held = false;
    if (observed.notified.contains(Operation::connect) || !observed.udp || !observed.unix_datagram)
        plan.notified |= Operation::connect;
    if (!observed.udp || !observed.unix_datagram) plan.notified |= Operation::bind;
    plan.look_ups = observed.look_ups;
    plan.run_servers = observed.run_servers;
    plan.sockets_on_behalf = input.sockets_on_behalf;
    if (input.sockets_on_behalf) plan.notified |= {Operation::connect, Operation::bind};
    plan.record = input.record;
    return plan;
}

bool lets_exist(const RuleSet& rules, const Object& object) {
    if (const auto* endpoint = std::get_if<Endpoint>(&object))
        return endpoint->protocol != Protocol::udp || rules.opens_udp();
    const auto* local = std::get_if<UnixObject>(&object);
    return local == nullptr || local->type != UnixType::datagram || rules.opens_unix_datagram();
}

}  // namespace callgate::rules
