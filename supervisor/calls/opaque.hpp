// Processes that made themselves opaque: prctl(PR_SET_DUMPABLE) with 0, as ssh-agent and keyrings do.
//
// The kernel would then show nothing of such a process to callgate either, so that it could neither bind nor
// open what is decided. So the call succeeds without reaching the kernel. What the kernel would have refused
// to the other processes of the run is refused here. The mark belongs to the memory: fork, vfork and clone
// pass it on, and execve(2) clears it. callgate sees none of these calls. But the places of a memory tell it
// and its copies from others (kernel/memory_places.hpp), whoever is whose parent by then. So no number of a
// process is remembered.
//
// An attacker controls every process of the run but the opaque one. It may fork, end processes until a number
// comes again, and make itself opaque. A process without random places (personality(2)) shares them with
// others, and a relative that never executed anything shares them too. Both then count as opaque: never the
// other way round. If the places of a process are not shown, it counts as opaque. Any thread.
//
// Some of it the kernel tells callgate nothing of, so it is not held. Names that its descriptors have are
// shown by readlink(2), and addresses by get_robust_list(2) and move_pages(2). A descriptor's link in
// /proc/PID/fd leads to its pipes and memory files. Processes outside the run may look at it as at any other
// of the same user. A tracer that came before the mark keeps what it had: natively it could still set
// registers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <set>
#include <shared_mutex>
#include <string_view>

#include "rules/model/verdict.hpp"
#include "supervisor/kernel/memory_places.hpp"

namespace callgate::calls {

class OpaqueMemories {
public:
    /// Waits until nobody reaches into another process. 0, or the errno of a list that is full.
    [[nodiscard]] int mark(const kernel::MemoryPlaces& places);
    /// Whether any memory was ever marked in this run.
    [[nodiscard]] bool any() const { return any_.load(); }
    /// Whether the memory of `process` counts as opaque. False for a number that no process has.
    [[nodiscard]] bool is_opaque(pid_t process) const;
    /// Whether `path` of /proc belongs to an opaque process that is not the thread's own.
    [[nodiscard]] bool hides(std::string_view path, pid_t thread) const;

    /// Whether both are of one process.
    [[nodiscard]] static bool is_own(pid_t process, pid_t thread);

    /// Held shared from judging until the judged act is over, so that no memory is marked meanwhile.
    [[nodiscard]] std::shared_mutex& reaching() { return reaching_; }

    /// The verdict on what is closed: its rule is `callgate-opaque`.
    [[nodiscard]] static rules::Verdict denial(rules::Operation operation, int error);

private:
    static constexpr std::size_t max_marks = 65'536;

    std::atomic<bool> any_{false};
    std::shared_mutex reaching_;
    mutable std::shared_mutex mutex_;  // of marks_
    std::set<kernel::MemoryPlaces> marks_;
};

}  // namespace callgate::calls
