// The plan of a run that is only observed.
#pragma once

#include "rules/plan/plan.hpp"

namespace callgate::rules {

/// Audit mode. `enforced` is what still holds (invariant 9, everything else allowed): Landlock and the filter
/// are given that alone, so a call that is continued can land nowhere else. Trapped is besides whatever
/// `observed`, the plan of the user's rules, would have notified; datagram sockets can be made.
[[nodiscard]] Plan make_audit_plan(const RuleSet& enforced, const Plan& observed, const PlanInput& input);
/// For the plan of the observed rules: what `minimal` leaves to the kernel alone must be seen here.
[[nodiscard]] PlanInput observing(PlanInput input);

/// Whether a run under `rules` would let such an object come to be: the socket of a datagram address cannot
/// be made unless a rule opens them, whatever the default says of its address.
[[nodiscard]] bool lets_exist(const RuleSet& rules, const Object& object);

}  // namespace callgate::rules
