// Control groups of one run, where this process may make some (version 1, controllers memory and pids): then
// the kernel itself holds the limits, at every instant.
//
// Groups are made beneath those that callgate itself is in, so what holds callgate holds the run. The run is
// put into them while its first process still waits. Their names stand in the memory that the guardian
// shares, so that they are removed whatever becomes of the supervisor. A target that may write to the control
// group file system could leave them: no shipped profile allows that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/made_objects.hpp"
#include "rules/limits.hpp"

namespace callgate::limits {

class ControlGroups {
public:
    /// Makes what can be made for these limits; nothing where no group can. `made` outlives the groups.
    ControlGroups(const std::string& run, const rules::Limits& limits, agent::MadeObjects& made);
    ControlGroups(const ControlGroups&) = delete;
    ControlGroups& operator=(const ControlGroups&) = delete;

    [[nodiscard]] bool hold_memory() const { return !memory_.empty(); }
    [[nodiscard]] bool hold_tasks() const { return !tasks_.empty(); }
    /// Puts a process into every group; what it forks later follows. False (errno) where it cannot.
    [[nodiscard]] bool add(pid_t process) const;
    /// "memory" or "processes" where a limit was reached: something was killed, or a fork failed.
    [[nodiscard]] std::optional<std::string> exceeded() const;
    /// Bytes and tasks at the most.
    [[nodiscard]] std::uint64_t peak_memory() const;
    [[nodiscard]] std::uint64_t peak_tasks() const;

private:
    std::string memory_, tasks_;  // directories, "" none
};

}  // namespace callgate::limits
