// Landlock domains: the base domain of callgate's own threads, and the target's domain from its parts.
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
#include "base/port_range.hpp"
#include "base/unique_fd.hpp"

namespace callgate::agent {

/// The kernel's Landlock ABI, 0 where it has none; a test build may be told an older one
/// (base/test_switch.hpp).
[[nodiscard]] int kernel_landlock_abi();

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
    std::span<const PortRange> connect, bind;

    /// Errors: errno of landlock_create_ruleset, open, landlock_add_rule; EOPNOTSUPP where `abi` is 0.
    /// Async-signal-safe: allocates only where `left_out` is given, which receives the paths that are no
    /// longer what the plan saw.
    [[nodiscard]] boost::system::result<UniqueFd> make(std::vector<std::string>* left_out = nullptr) const;
};

/// Puts the calling thread (single-threaded: the whole process) into the base domain: REFER only, granted on
/// "/". Needs NO_NEW_PRIVS, which it sets. EOPNOTSUPP where `abi` is 0.
[[nodiscard]] boost::system::result<void> enter_base_domain(int abi);

}  // namespace callgate::agent
