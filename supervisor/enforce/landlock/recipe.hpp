// From a plan to the parts of a Landlock ruleset. Pure: no kernel call, no descriptor.
//
// It runs in the supervisor; the agent turns the parts into a ruleset (agent/landlock.hpp). An attacker
// controls nothing here: rule set and plan belong to the user. See landlock(7).
#pragma once

#include <cstdint>
#include <vector>

#include "agent/landlock.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::enforce {

/// The LANDLOCK_ACCESS_FS_* rights for operations, limited to those that `abi` knows, and without `directory`
/// to file rights. A plan grants connect only where `abi` knows its right.
[[nodiscard]] std::uint64_t landlock_access(rules::OperationSet operations, bool directory, int abi);

/// Bound on port rules for one operation: Landlock knows single ports only. Further ranges stay contested.
inline constexpr std::uint32_t max_port_rules = 1024;

struct PortSplit {
    std::vector<rules::PortRange> held, left_out;
};
/// Splits the ranges: those that become Landlock rules, in order while they fit, and the rest.
[[nodiscard]] PortSplit split_ports(const std::vector<rules::PortRange>& ranges);

/// The parts for a plan, computed beforehand. So the agent can make the ruleset between fork and exec, while
/// the supervisor continues. Borrows the plan's paths.
class RulesetRecipe {
public:
    explicit RulesetRecipe(const rules::Plan& plan);
    [[nodiscard]] agent::RulesetParts parts() const {
        return {abi_, attributes_, grants_, {connect_, bind_}, {udp_connect_, udp_bind_}};
    }

private:
    int abi_;
    agent::landlock::RulesetAttributes attributes_;
    std::vector<agent::GrantedPath> grants_;
    std::vector<rules::PortRange> connect_, bind_, udp_connect_, udp_bind_;
};

}  // namespace callgate::enforce
