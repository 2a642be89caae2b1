// The calls of one container, answered from its handover to the end of its last process.
//
// Deciding, records and acts are those of every run (decide/, calls/). A caller may have any identity: each
// call is made under the caller's own ids and capabilities, as in a run that keeps capabilities
// (kernel/acting_identity.hpp). The supervisor is in the container's place, so no act has more than the
// container has. Reading a caller is the one use of what the supervisor has beyond that.
//
// The kernel also asks who acts for its control group and security label, and both are the agent's. So only
// devices that every container may use are opened. The label stays the agent's (docs/containers.md). A server
// in the container can get a pidfd of the supervisor, whom it sees as the peer of a connection made on
// behalf. So no descriptor can be taken by a pidfd there.
//
// When this process ends, for whatever reason, its listener closes. The calls that it would have answered
// then fail with ENOSYS.
#pragma once

#include <string>

#include "supervisor/audit/write/log.hpp"
#include "supervisor/container/container_rules.hpp"
#include "supervisor/container/place.hpp"
#include "supervisor/container/process_state.hpp"
#include "supervisor/container/questions.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::container {

struct Container {
    const ProcessState& state;
    const Place& place;
    const ContainerRules& rules;
    const std::string& run;
    const UniqueFd& meeting;    // processes that the runtime adds are handed over there (joining.hpp)
    audit::Log* log = nullptr;  // null: none is kept
    Asking* asking = nullptr;   // null: nobody answers questions
    int name_lock = -1;         // of the agent's containers (calls/name_lock.hpp); -1: none
};

/// The filter of the rules. Its profile is what the runtime installs (oci_profile.hpp).
[[nodiscard]] enforce::FilterSpec filter_of(const ContainerRules& rules);

/// Returns when no process of the container is left that has the filter, with a line about what was denied;
/// "" if nothing was. Throws std::exception if no call can be answered. The threads stay: end the process.
[[nodiscard]] std::string supervise(const Container& container, UniqueFd listener);

}  // namespace callgate::container
