// Ends a tree that outgrows --memory while a reading of it is late.
//
// A reading takes as long as the tree makes it: by processes that have ended, descriptors, maps, page tables,
// or a directory for --disk. Meanwhile nobody would see how the tree grows. So a thread of its own watches
// what the whole machine gains since the last reading began. That is one small file, whatever the tree does.
//
// When the machine has gained what the tree may, the next reading is wanted at once. When it has gained more,
// the tree's processes are stopped until that reading is done. They leave the reader no processor otherwise,
// and grow meanwhile. If the reading is not done after some time of its own, the tree is ended. What other
// programs gain counts then, and what they give back hides as much of the tree.
//
// So a tree is stopped that has done nothing, where another program gains much. It must not notice more than
// the time: a shell takes a job that stops from the foreground, and callgate stops with its command.
#pragma once

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/process/processes.hpp"
#include "base/unique_fd.hpp"

namespace callgate::limits {

class MemoryGuard {
public:
    using Clock = std::chrono::steady_clock;
    using Wait = std::chrono::nanoseconds;

    /// The finding of a reading.
    struct Found {
        std::uint64_t used = 0;                          // bytes, at most
        std::uint64_t wanted_after = 0, held_after = 0;  // bytes that the machine may gain since it began
        double growth = 1;                               // bytes a second, at most
        Wait next{};                                     // the time after which another reading is due
        std::vector<Process> living;
    };

    /// `exceeded` is called once, on the guard's thread, before the tree is stopped. It needs the descriptor
    /// `exceeded_by` alone.
    MemoryGuard(pid_t guardian, int exceeded_by, std::function<void()> exceeded)
        : guardian_(guardian), exceeded_by_(exceeded_by), exceeded_(std::move(exceeded)) {}
    MemoryGuard(const MemoryGuard&) = delete;
    MemoryGuard& operator=(const MemoryGuard&) = delete;
    ~MemoryGuard() { stop(); }

    /// `reader`: the thread that reads the tree. Something was said to be found before. All signals are
    /// blocked. Throws std::system_error if no thread can be made.
    void start(pthread_t reader);
    void stop();

    /// By the reader, around each reading.
    void reading_begins();
    /// The machine's gain from the beginning of the first reading to that of the last.
    [[nodiscard]] std::uint64_t gained() const { return begun_ > first_ ? begun_ - first_ : 0; }
    void reading_ends(Found found);
    /// Whether the process is stopped, and not until the reading is done.
    [[nodiscard]] bool stopped_by_itself(pid_t pid);
    /// Continues them, and stops none until `go_on`: nobody would continue them while this process is
    /// stopped. A copy stops none either, because it ends at any moment.
    void pause();
    void go_on();
    /// Too much was found. The machine's gain since the reading before that is the tree's, until it is ended.
    void too_much();
    /// Readable if a reading is wanted at once. The reader clears it by `reading_ends`.
    [[nodiscard]] int wanted() const { return wanted_.get(); }

    /// Bytes that the tree had at most while it was ended. 0: it was not, for its memory.
    [[nodiscard]] std::uint64_t peak() const { return peak_.load(); }

    /// The state does not change while this is held, so a fork copies all of it.
    [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
    /// In a forked process, which has only the thread that forked: begins there.
    void start_in_copy(pthread_t reader);

private:
    struct State {
        Found found;
        std::uint64_t at_begin = 0;  // of the machine, as the reading began
        Clock::time_point due{};
    };

    void run();
    /// Whether the reader has had its time since the last look; `looks` counts those of this reading.
    [[nodiscard]] bool is_late(Wait used_before, int looks) const;
    [[nodiscard]] Wait used() const;
    /// With the lock held. Parents are stopped before their children, and continued after them: no parent
    /// sees that its child has stopped. Programs that look for it give each child a group of its own. Such a
    /// child is left out until its parent has really stopped, unless `all` is said.
    void hold_tree(bool all);
    void continue_held();
    /// With the lock held: what the machine has gained since the last reading began.
    [[nodiscard]] std::uint64_t gained_since() const;
    void note_peak(std::uint64_t gained) { peak_ = std::max(peak_.load(), state_.found.used + gained); }
    void end(const State& state);

    const pid_t guardian_;
    const int exceeded_by_;
    const std::function<void()> exceeded_;
    clockid_t reader_clock_ = CLOCK_THREAD_CPUTIME_ID;
    std::uint64_t begun_ = 0, first_ = 0;  // the reader's
    std::mutex mutex_;
    State state_;                 // guarded by mutex_
    std::uint64_t readings_ = 0;  // guarded by mutex_
    std::vector<Process> held_;   // guarded by mutex_
    bool too_much_ = false;       // guarded by mutex_
    bool paused_ = false;         // guarded by mutex_
    std::atomic<std::uint64_t> peak_{0};
    UniqueFd ending_{::eventfd(0, EFD_CLOEXEC)}, wanted_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::thread thread_;
};

}  // namespace callgate::limits
