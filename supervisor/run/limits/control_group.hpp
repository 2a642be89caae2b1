// Control groups of one run, if this process may make some: the kernel itself then holds the limits, at every
// instant.
//
// Groups of version 1 (controllers memory and pids) are made beneath callgate's own, so that its limits hold
// for the run too. Groups of version 2 are made where unified_place.hpp finds a place. The run is put into
// them while its first process still waits; no other process is ever moved. The guardian shares the memory
// that holds their names, so they are removed whatever becomes of the supervisor.
//
// If callgate's own group is a hierarchy's root (mode 0555), root needs CAP_DAC_OVERRIDE to make and remove a
// group. Groups are therefore made before capabilities are dropped; to remove them that one is set aside
// (base/process/capabilities). A target that may write to the control group file system could leave them: no
// shipped profile allows that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/created_ipc.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "rules/model/limits.hpp"
#include "supervisor/audit/write/outcome.hpp"

namespace callgate::limits {

class ControlGroups {
public:
    /// Makes the groups that can be made for these limits. `made` outlives them and lists them for removal.
    ControlGroups(const std::string& run, const rules::Limits& limits, agent::CreatedIpc& made);
    ControlGroups(const ControlGroups&) = delete;
    ControlGroups& operator=(const ControlGroups&) = delete;

    [[nodiscard]] bool hold_memory() const { return !memory_.empty(); }
    [[nodiscard]] bool hold_tasks() const { return !tasks_.empty(); }
    /// Puts a process into every group; its later children follow. Errors: errno of open(2), write(2). A
    /// group of version 2 that it cannot enter is given up, and its limits are then not held.
    [[nodiscard]] Result<void> add(pid_t process);
    /// `memory` or `processes`, if that limit was reached: a process was killed, or a fork failed.
    [[nodiscard]] std::optional<Outcome> exceeded() const;
    /// Version 1 kills one process of the group alone, and another would go on without it until `exceeded` is
    /// asked. This descriptor becomes readable before the kernel kills; -1 if there is none.
    [[nodiscard]] int out_of_memory() const { return out_of_memory_.get(); }
    /// The largest number of bytes and of tasks.
    [[nodiscard]] std::uint64_t peak_memory() const;
    [[nodiscard]] std::uint64_t peak_tasks() const;

private:
    void make_unified(const std::string& run, const rules::Limits& limits);
    void give_up_unified();

    agent::CreatedIpc& made_;
    std::string memory_, tasks_;  // directories; "" if there is none
    UniqueFd out_of_memory_;      // an eventfd that is never read
    std::string unified_;         // the group of version 2; it is then one of those, or both
};

}  // namespace callgate::limits
