// The plan of a run in audit mode.
#pragma once

#include "rules/plan/plan.hpp"

namespace callgate::rules {

/// Makes the plan for audit mode. Landlock and the filter enforce `enforced` alone (invariant 9, everything
/// else allowed), so a continued call can land nowhere else. All calls are notified that `observed`, the plan
/// of the user's rules, would have notified. Datagram sockets can be created.
[[nodiscard]] Plan make_audit_plan(const RuleSet& enforced, const Plan& observed, const PlanInput& input);
/// The input for the plan of the observed rules: calls that `minimal` leaves to the kernel must be notified
/// here.
[[nodiscard]] PlanInput observing(PlanInput input);

/// Whether such an object could exist in a run under `rules`. A datagram socket cannot be created unless a
/// rule opens its kind, even if the default allows its address.
[[nodiscard]] bool lets_exist(const RuleSet& rules, const Object& object);

}  // namespace callgate::rules
