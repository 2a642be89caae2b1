// Landlock domains: the base domain of callgate's own threads, and the target's domain from a plan.
//
// Attaches rights to inodes through O_PATH descriptors opened here. A grant whose path has
// vanished since the plan, or leads through a symbolic link by now, is left out (its calls are then answered
// on behalf). An attacker controls what lies at those paths, never the paths. landlock(7).
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/landlock_abi.hpp"
#include "agent/unique_fd.hpp"
#include "rules/plan.hpp"

namespace callgate::agent {

/// The kernel's Landlock ABI, 0 where it has none; a test build may be told an older one
/// (rules/test_switch.hpp).
[[nodiscard]] int kernel_landlock_abi();

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

/// A hierarchy or file, and LANDLOCK_ACCESS_FS_* for it.
struct GrantedPath {
    const char* path;
    bool directory;
    std::uint64_t access;
};

/// All that the ruleset of a target's domain is made of, borrowed.
struct RulesetParts {
    int abi = 0;
    landlock::RulesetAttributes attributes;
    std::span<const GrantedPath> grants;
    std::span<const rules::PortRange> connect, bind;

    /// Errors: errno of landlock_create_ruleset, open, landlock_add_rule; EOPNOTSUPP where `abi` is 0.
    /// Async-signal-safe: allocates only where `left_out` is given, which receives the paths that are no
    /// longer what the plan saw.
    [[nodiscard]] boost::system::result<UniqueFd> make(std::vector<std::string>* left_out = nullptr) const;
};

/// The parts for a plan, computed beforehand, so that the ruleset can be made between fork and exec while the
/// supervisor does other things. Borrows the plan's paths.
class RulesetRecipe {
public:
    explicit RulesetRecipe(const rules::Plan& plan);
    [[nodiscard]] RulesetParts parts() const { return {abi_, attributes_, grants_, connect_, bind_}; }

private:
    int abi_;
    landlock::RulesetAttributes attributes_;
    std::vector<GrantedPath> grants_;
    std::vector<rules::PortRange> connect_, bind_;
};

/// Puts the calling thread (single-threaded: the whole process) into the base domain: REFER only, granted on
/// "/". Needs NO_NEW_PRIVS, which it sets. EOPNOTSUPP where `abi` is 0.
[[nodiscard]] boost::system::result<void> enter_base_domain(int abi);

}  // namespace callgate::agent
