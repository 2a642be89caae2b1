// The limits that hold a run's whole tree: control groups where there are some, else readings of /proc, often
// enough.
//
// A thread of its own reads what the tree uses and says when it is too much; the event loop then ends the
// tree. The next reading comes when the limit could be reached at the fastest growth that was seen, at least
// 500 MB/s: never later than a second, never sooner than 2 ms. What the target does between two readings is
// the overshoot; docs/limits.md has what was measured.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rules/model/limits.hpp"
#include "supervisor/run/limits/control_group.hpp"
#include "supervisor/run/limits/held.hpp"
#include "supervisor/run/limits/tree_usage.hpp"

namespace callgate::limits {

struct TreeLimitSettings {
    rules::Limits limits;
    pid_t guardian = -1;
    pid_t agent = -1;  // waits, and becomes the command
    const agent::CreatedIpc* made = nullptr;
    ControlGroups* groups = nullptr;  // outlive the limits
    std::vector<std::string> places;  // whose bytes count for `disk`
    /// Called once, on the limits' thread, with the outcome: "memory", "processes", "cpu", "disk",
    /// "idle_timeout".
    std::function<void(const std::string& outcome)> exceeded;
};

class TreeLimits {
public:
    /// Whether some limit is one of the whole tree.
    [[nodiscard]] static bool any(const rules::Limits& limits);

    /// Puts the agent into the control groups, and counts the bytes that lie in `places`
    /// already. Throws std::runtime_error where they cannot be counted, or the agent cannot be put there.
    explicit TreeLimits(TreeLimitSettings settings);
    TreeLimits(const TreeLimits&) = delete;
    TreeLimits& operator=(const TreeLimits&) = delete;
    ~TreeLimits();

    /// Begins to read: when the tree begins. Throws std::system_error where there is no thread for it.
    void start();
    /// Returns when the thread has ended.
    void stop();
    /// After `stop`. The outcome where a control group's limit was reached, even if the command has ended by
    /// itself before that was read.
    [[nodiscard]] std::optional<std::string> group_reached() const;
    [[nodiscard]] TreePeak peak() const { return peak_; }

private:
    using Clock = std::chrono::steady_clock;
    using Wait = std::chrono::nanoseconds;

    void run();
    void end(const std::string& outcome);
    /// The outcome where something is too much, and when to look again.
    std::optional<std::string> look(Wait& next);
    /// One reading of the tree: the same, and when the next is due.
    std::optional<std::string> read_tree(Wait& next);
    std::optional<std::string> group_exceeded(Wait& next) const;
    bool tasks_exceeded(const TreeUsage& usage, Wait& next) const;
    bool memory_exceeded(const TreeUsage& usage, Wait& next);
    bool disk_exceeded(Wait& next);
    bool idle(const TreeUsage& usage, Wait& next);

    TreeLimitSettings settings_;
    ControlGroups& groups_;
    TreeMeter meter_;
    TreePeak peak_;
    std::uint64_t shared_at_start_ = 0, disk_at_start_ = 0;
    std::vector<dev_t> devices_;
    Clock::time_point next_reading_{}, last_reading_{}, next_disk_{};
    std::uint64_t last_memory_ = 0;
    double fastest_growth_;  // bytes a second
    /// When the tree was last seen at work, and what it had used and written by then.
    Clock::time_point active_{};
    std::chrono::milliseconds active_cpu_{0};
    std::uint64_t active_written_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace callgate::limits
