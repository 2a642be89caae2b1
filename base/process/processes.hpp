// The descendants of a process, as /proc shows them, and how to end them all.
//
// The target controls how many there are and what they are called. It also controls whether they fork, stop,
// ignore signals, or leave their session or their parent while they are counted. It cannot leave the tree:
// orphans fall to the nearest subreaper. A process is signalled through a pidfd whose identity is checked
// again after it was opened. So a signal to a reused number never hits an outside process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace callgate {

struct Process {
    pid_t pid = 0, parent = 0;
    char state = '?';  // proc(5): R, S, D, T, Z, ...
    std::uint64_t threads = 0;
    std::uint64_t start_time = 0;      // ticks since boot
    std::uint64_t ticks = 0;           // processor time of its own
    std::uint64_t children_ticks = 0;  // processor time of the descendants that were reaped
    std::uint64_t resident_pages = 0;
    /// Whether some thread still runs: the first thread may be a zombie already while others go on.
    [[nodiscard]] bool alive() const { return (state != 'Z' && state != 'X') || threads > 1; }
};

/// Returns nullopt if the process is gone or cannot be read.
[[nodiscard]] std::optional<Process> read_process(pid_t pid);

/// By a signal. One that its tracer has stopped is not.
[[nodiscard]] bool is_stopped(pid_t pid);

/// The members of a process's family, as far as one reading of /proc has shown them. Entries are read one
/// after the other, and a number may be reused meanwhile. Then an entry that was read before names a false
/// parent. So a process that began before its parent is not taken for its child.
class Family {
public:
    explicit Family(const Process& root) { add(root); }

    [[nodiscard]] bool holds_parent_of(const Process& process) const {
        const auto parent = start_times_.find(process.parent);
        return parent != start_times_.end() && parent->second <= process.start_time;
    }
    void add(const Process& process) { start_times_[process.pid] = process.start_time; }

private:
    std::unordered_map<pid_t, std::uint64_t> start_times_;
};

/// Calls `visit` for each descendant of `root`, zombies included, as soon as one reading of /proc shows it.
void for_each_descendant(pid_t root, const std::function<void(const Process&)>& visit);

/// All living descendants of `root`, from one reading of /proc.
[[nodiscard]] std::vector<pid_t> descendants(pid_t root);

/// Sends a signal to these processes, of which number and time of start count. Those that have ended are left
/// out.
void signal_processes(const std::vector<Process>& processes, int signal);

/// Sends these signals, in order, to every living descendant.
void signal_descendants(pid_t root, std::initializer_list<int> signals);

/// Ends all descendants of `root` (not `root` itself): sends SIGSTOP until nothing new appears, then SIGKILL.
/// Returns how many were killed. Zombies remain for their parents to reap. `between` is called between two
/// readings of /proc and may reap zombies that fell to the caller. Then the readings stay short while a tree
/// dies as fast as it grows.
std::size_t end_descendants(pid_t root, const std::function<void()>& between = nullptr);

}  // namespace callgate
