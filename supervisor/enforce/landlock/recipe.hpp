// From a plan to the parts of a Landlock ruleset. Pure: no kernel call, no descriptor.
//
// Runs in the supervisor, before the fork or beside it; the agent turns the parts into a ruleset
// (agent/landlock.hpp). An attacker controls nothing here: rule set and plan are the user's. landlock(7).
#pragma once

#include <cstdint>
#include <vector>

#include "agent/landlock.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::enforce {

/// LANDLOCK_ACCESS_FS_* for operations, limited to what `abi` knows; file rights only where `directory` is
/// false.
[[nodiscard]] std::uint64_t landlock_access(rules::OperationSet operations, bool directory, int abi);

/// Landlock knows single ports only: beyond this many for one operation, whole ranges stay contested.
inline constexpr std::uint32_t max_port_rules = 1024;

struct PortSplit {
    std::vector<rules::PortRange> held, left_out;
};
/// Which of the ranges become Landlock rules, in order while they fit.
[[nodiscard]] PortSplit split_ports(const std::vector<rules::PortRange>& ranges);

/// The parts for a plan, computed beforehand, so that the ruleset can be made between fork and exec while the
/// supervisor does other things. Borrows the plan's paths.
class RulesetRecipe {
public:
    explicit RulesetRecipe(const rules::Plan& plan);
    [[nodiscard]] agent::RulesetParts parts() const {
        return {abi_, attributes_, grants_, connect_, bind_};
    }

private:
    int abi_;
    agent::landlock::RulesetAttributes attributes_;
    std::vector<agent::GrantedPath> grants_;
    std::vector<rules::PortRange> connect_, bind_;
};

}  // namespace callgate::enforce
