// Control groups of one run, where this process may make some: then the kernel itself holds the limits, at
// every instant.
//
// Of version 1 (controllers memory and pids) they are made beneath those that callgate itself is in, so what
// holds callgate holds the run; of version 2 where unified_place.hpp finds a place. The run is put into them
// while its first process still waits; nobody else is ever moved. Their names stand in the memory that the
// guardian shares, so that they are removed whatever becomes of the supervisor. Where callgate's own group is
// a hierarchy's root (mode 0555), root needs CAP_DAC_OVERRIDE for making and removing one: so they are made
// before capabilities are dropped, and for removing that one is set aside (agent/capabilities). A target that
// may write to the control group file system could leave them: no shipped profile allows that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/created_ipc.hpp"
#include "rules/model/limits.hpp"

namespace callgate::limits {

class ControlGroups {
public:
    /// Makes what can be made for these limits; nothing where no group can. `made` outlives the groups; what
    /// stands there is removed with it.
    ControlGroups(const std::string& run, const rules::Limits& limits, agent::CreatedIpc& made);
    ControlGroups(const ControlGroups&) = delete;
    ControlGroups& operator=(const ControlGroups&) = delete;

    [[nodiscard]] bool hold_memory() const { return !memory_.empty(); }
    [[nodiscard]] bool hold_tasks() const { return !tasks_.empty(); }
    /// Puts a process into every group; what it forks later follows. False (errno) where it cannot. A group
    /// of version 2 that it cannot enter is given up: what it was to hold is then not held.
    [[nodiscard]] bool add(pid_t process);
    /// "memory" or "processes" where a limit was reached: something was killed, or a fork failed.
    [[nodiscard]] std::optional<std::string> exceeded() const;
    /// Bytes and tasks at the most.
    [[nodiscard]] std::uint64_t peak_memory() const;
    [[nodiscard]] std::uint64_t peak_tasks() const;

private:
    void make_unified(const std::string& run, const rules::Limits& limits);
    void give_up_unified();

    agent::CreatedIpc& made_;
    std::string memory_, tasks_;  // directories, "" none
    std::string unified_;         // that of version 2; then it is one of those or both
};

}  // namespace callgate::limits
