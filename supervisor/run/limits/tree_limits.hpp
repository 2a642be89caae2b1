// Limits of a run's whole tree: control groups if there are some, else frequent readings of /proc.
//
// A thread of its own reads the tree's usage and reports an excess; the event loop then ends the tree. The
// next reading comes before memory could exceed its limit by much. The growth is then taken as the fastest
// that was seen, and as 8 GB/s at least. Readings take a twentieth of a processor at most, and come between 2
// ms and a second apart. They come later only where a reading takes long, and memory is guarded then
// (memory_guard.hpp). The target can overshoot a limit between two readings; docs/limits.md has measurements.
//
// The tree also decides how many descriptors its calls take here. So these threads have descriptors of their
// own, and always find some to read by.
//
// While callgate is stopped with its command, the rest of the tree may go on. A process of its own then reads
// in the thread's place, and continues callgate where a limit is exceeded.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"
#include "rules/model/limits.hpp"
#include "supervisor/run/limits/control_group.hpp"
#include "supervisor/run/limits/held.hpp"
#include "supervisor/run/limits/memory_guard.hpp"
#include "supervisor/run/limits/tree_usage.hpp"

namespace callgate::limits {

struct TreeLimitSettings {
    rules::Limits limits;
    pid_t guardian = -1;
    pid_t agent = -1;  // still waits to become the command
    const agent::CreatedIpc* made = nullptr;
    const agent::CreatedIpc* by_nested = nullptr;
    ControlGroups* groups = nullptr;  // outlives the limits
    std::vector<std::string> places;  // directories whose bytes count for `disk`
    /// Called once, on a thread of the limits: `memory`, `processes`, `cpu`, `disk` or `idle_timeout`.
    std::function<void(Outcome)> exceeded;
    int exceeded_by = -1;  // the only descriptor that `exceeded` needs
};

class TreeLimits {
public:
    /// Whether some limit concerns the whole tree.
    [[nodiscard]] static bool any(const rules::Limits& limits);

    /// Puts the agent into the control groups, and counts the bytes that lie in `places` already. Throws
    /// std::runtime_error if either is impossible.
    explicit TreeLimits(TreeLimitSettings settings);
    TreeLimits(const TreeLimits&) = delete;
    TreeLimits& operator=(const TreeLimits&) = delete;
    ~TreeLimits();

    /// Begins to read, as the tree begins. Throws std::system_error if no thread can be made.
    void start();
    /// Returns when the thread has ended.
    void stop();
    /// The outcome, if a control group's limit was reached, even if the command ended by itself before that
    /// was read. Call it after `stop`.
    [[nodiscard]] std::optional<Outcome> group_reached() const;
    [[nodiscard]] TreePeak peak() const { return peak_; }

    /// Right before this process stops: forks the process that reads meanwhile. Main thread, with all signals
    /// handled by descriptor. Without a process for it the limits wait until callgate goes on.
    void stand_in();
    /// Right after: ends that process, and reports what it has found.
    void end_stand_in();
    /// Whether the process is stopped, and not by the limits for a moment. Any thread.
    [[nodiscard]] bool stopped_by_itself(pid_t pid) {
        return guard_ ? guard_->stopped_by_itself(pid) : is_stopped(pid);
    }

private:
    using Clock = std::chrono::steady_clock;
    using Wait = std::chrono::nanoseconds;

    void run();
    [[noreturn]] void run_as_stand_in(pid_t supervisor, int result);
    void end(Outcome outcome);
    /// Reports it, unless one was reported.
    void report(Outcome outcome);
    /// Says that a reading has found so much.
    void tell_guard(std::uint64_t used, Wait due);
    /// The outcome, if a limit is exceeded; else `next` is the time until the next look.
    std::optional<Outcome> look(Wait& next);
    /// Reads the tree once; the same result.
    std::optional<Outcome> read_tree(Wait& next);
    std::optional<Outcome> group_exceeded(Wait& next) const;
    bool tasks_exceeded(const TreeUsage& usage, Wait& next) const;
    /// `took`: this thread's time for the reading.
    bool memory_exceeded(const TreeUsage& usage, Wait took, Wait& next);
    bool names_exceeded(Wait& next);
    bool disk_exceeded(Wait& next);
    bool idle(const TreeUsage& usage, Wait& next);

    TreeLimitSettings settings_;
    ControlGroups& groups_;
    TreeMeter meter_;
    TreePeak peak_;
    std::uint64_t shared_names_ = 0;  // the most bytes that they had
    std::uint64_t shared_at_start_ = 0, disk_at_start_ = 0;
    std::uint64_t around_at_start_ = 0;  // in use on the file systems of `places`, by anybody
    std::vector<dev_t> devices_;
    Clock::time_point next_reading_{}, last_reading_{}, next_disk_{};
    std::uint64_t last_memory_ = 0;
    double fastest_growth_;  // bytes a second
    /// The last time that the tree was seen at work, and its usage by then.
    Clock::time_point active_{};
    std::chrono::milliseconds active_cpu_{0};
    std::uint64_t active_written_ = 0;

    UniqueFd ending_{::eventfd(0, EFD_CLOEXEC)};  // readable from `stop` on
    std::thread thread_;

    std::optional<MemoryGuard> guard_;  // where readings hold the memory
    std::atomic<bool> reported_{false};

    std::mutex reading_;  // a reading is under way: what it changes must be whole when it is copied
    pid_t stand_in_ = -1;
    UniqueFd found_;  // the outcome that the process has found; read end
};

}  // namespace callgate::limits
