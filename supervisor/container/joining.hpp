// The way of a process that a runtime adds to a container (`runc exec`) to the supervisor of that container.
//
// A container has one supervisor. Its lock of names, and what it knows of opaque processes, hold for all
// processes, and they have one log. So it listens at a name in a directory of root alone. Whoever
// takes an added process from the runtime hands its listener over there, and never supervises it alone.
//
// The name is made of the container's id and its first process. Not every runtime says which that is: crun
// gives no number at all for an added process. Then the id alone leads there. Both sides compare id, rules
// and profile. A caller of another root, mount or user namespace is denied anyhow (kernel/caller_cache.hpp).
//
// Until it executes, an added process is the runtime's, and its calls are continued. The container's programs
// see it already, but the runtime has made it undumpable. CAP_SYS_PTRACE overrides that, unless the container
// has a user namespace. So such a container gets no added processes. That refusal comes late: the runtime's
// process is in the container before it has a filter, and nothing here holds who traces it then.
#pragma once

#include <chrono>
#include <string>

#include "base/expected.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/container/process_state.hpp"

namespace callgate::container {

/// The name at which the supervisor of a new container listens.
[[nodiscard]] std::string meeting_name(const ProcessState& first);

/// Removes names in `directory` that were left by supervisors which were killed.
void remove_dead_names(const std::string& directory);

/// Hands an added process to its container's supervisor. `directory` has the names. A supervisor that is just
/// starting has until `patience` is over.
[[nodiscard]] Expected<void> hand_to_supervisor(const std::string& directory, const ProcessState& added,
                                                std::chrono::milliseconds patience);

/// Takes one listener that was handed over; none if there is none, or it was refused. `container` is the
/// supervisor's. `may_trace`: its programs could trace the runtime's processes.
[[nodiscard]] UniqueFd take_added(const UniqueFd& meeting, const ProcessState& container, bool may_trace);

}  // namespace callgate::container
