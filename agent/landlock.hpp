// Landlock domains: the base domain of callgate's own threads, and the target's domain from its parts.
//
// Rights are attached to inodes through O_PATH descriptors that are opened here. A grant is left out if its
// path has vanished since the plan or leads through a symbolic link. Its calls are then answered on behalf.
// An attacker controls what lies at those paths, never the paths. See landlock(7).
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

/// The kernel's Landlock ABI, 0 without Landlock. A test build can lower it (base/test_switch.hpp).
[[nodiscard]] int kernel_landlock_abi();

/// A hierarchy or file, and its LANDLOCK_ACCESS_FS_* rights.
struct GrantedPath {
    const char* path;
    bool directory;
    std::uint64_t access;
};

/// All parts of a ruleset for a target's domain, borrowed.
struct RulesetParts {
    int abi = 0;
    landlock::RulesetAttributes attributes;
    std::span<const GrantedPath> grants;
    struct Ports {
        std::span<const PortRange> connect, bind;
    };
    Ports tcp{}, udp{};

    /// Makes the ruleset. Errors: errno of landlock_create_ruleset, open, landlock_add_rule; EOPNOTSUPP if
    /// `abi` is 0. Async-signal-safe: allocates only if `left_out` is given, which receives the paths that
    /// the plan saw otherwise.
    [[nodiscard]] boost::system::result<UniqueFd> make(std::vector<std::string>* left_out = nullptr) const;
};

/// Puts the calling thread (single-threaded: the whole process) into the base domain: REFER only, granted on
/// "/". Sets NO_NEW_PRIVS, which Landlock needs. Error EOPNOTSUPP if `abi` is 0.
[[nodiscard]] boost::system::result<void> enter_base_domain(int abi);

/// The same domain again for the guardian, before it forks the agent: its signals, and those of all its
/// descendants, reach none but these. Error EOPNOTSUPP if `abi` is below 6.
[[nodiscard]] boost::system::result<void> enter_signal_domain(int abi);

/// Puts the calling thread, which is to end soon, into a domain in which it makes unix sockets beneath
/// `directory` alone. Errors: those of landlock(7); E2BIG where too many domains are around it.
[[nodiscard]] boost::system::result<void> confine_new_sockets(int directory);

}  // namespace callgate::agent
