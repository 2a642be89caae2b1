// The place of a container: handles on a process's namespaces and root, and the way into them.
//
// A supervisor of a container enters its mount, user, network and IPC namespaces and its root. So a path
// means the same to both, and acts on behalf happen there. It stays in the agent's PID namespace. So no
// process of the container can name it: none can signal or trace it, or read its /proc directory. It is not
// dumpable either.
//
// The container's own /proc has other numbers of processes than notifications. So the supervisor reads its
// callers in a procfs of its own, which has no name. It is the working directory of all its threads
// (kernel/target.hpp, proc_root).
//
// An attacker in the container controls what the root holds. The runtime, which is trusted, names a process
// that it holds stopped or that waits for it. So its number is not given anew before the handles are there.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/expected.hpp"
#include "base/unique_fd.hpp"

namespace callgate::container {

class Place {
public:
    /// Opens the handles. `process` has the filter, `first` is the container's first process.
    [[nodiscard]] static Expected<Place> of(pid_t process, pid_t first);

    /// Takes the calling process there, for good. It has no other thread.
    [[nodiscard]] Expected<void> enter() const;

    /// Whether it has a user namespace of its own.
    [[nodiscard]] bool has_own_users() const;

    /// Ends the container: its first process, and so all others. Any thread.
    void end() const;

    /// How the first process ended, as wait(2) says it. Call it when no process of the container is left: it
    /// waits until the runtime has taken notice. Nothing if the kernel does not tell (before Linux 6.15).
    [[nodiscard]] std::optional<int> wait_status() const;

private:
    UniqueFd process_, first_;  // pidfds
    UniqueFd root_, numbers_;   // of the container; a procfs of the agent's PID namespace
    int namespaces_ = 0;        // that are not the agent's
};

}  // namespace callgate::container
