// The threads that take notifications off the kernel and handle them, each call from beginning to end.
//
// One thread at a time waits for the next call while calls come one at a time; several do while they overlap
// (kernel-facts 33). A thread that is about to block (a FIFO, a connect) lets another take its place first;
// one that blocks unannounced (a page or a file system that hangs) is noticed by the watchdog and replaced.
// So nobody waits for a stranger: a call that blocks delays only its own caller. Blocked threads are
// interrupted when their caller dies or has a signal to handle (kernel-facts 10b, 11).
//
// Every thread has a working directory and umask of its own, blocks all signals but the one that interrupts
// it, and inherits the base Landlock domain and the empty capability set of the thread that starts them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "supervisor/calls/supervision.hpp"
#include "supervisor/kernel/listener.hpp"

namespace callgate {

class Receivers {
public:
    /// At most this many calls may be blocked at once (architecture.md); a further one is denied.
    static constexpr int max_blocked = 512;

    /// Both outlive this. `wake_watchdog` is called (by any thread) when calls begin to come after a pause:
    /// `tick` is then to be called every `tick_interval_ms` until it returns false.
    Receivers(kernel::NotificationSource& source, calls::Supervision& run,
              std::function<void()> wake_watchdog);
    ~Receivers();

    void start();
    /// The watchdog; event loop only. False: nothing happens, it may sleep.
    bool tick();
    /// Ends all threads. The listener answers nothing afterwards.
    void stop();

    static constexpr int tick_interval_ms = 20;

private:
    class Worker;
    bool spawn();
    bool replace();
    void adapt();
    bool park();
    void end_worker();

    kernel::NotificationSource& source_;
    calls::Supervision& run_;
    std::function<void()> wake_watchdog_;

    std::mutex mutex_;
    std::condition_variable parked_;
    std::list<std::unique_ptr<Worker>> workers_;  // guarded by mutex_
    int spare_ = 0;                               // parked workers that nobody called yet, guarded by mutex_
    int called_ = 0;                              // parked workers that are to wake, guarded by mutex_
    int running_ = 0;                             // threads not ended, guarded by mutex_
    int blocked_ = 0;                             // guarded by mutex_
    std::atomic<int> active_{0};                  // workers that receive or handle without blocking
    std::atomic<int> wanted_{1};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> watchdog_asleep_{true};

    // Overlap, for `adapt`.
    std::atomic<std::uint32_t> samples_{0}, overlaps_{0};
    std::atomic<std::int64_t> cautious_until_ns_{0};
    int quiet_ticks_ = 0;
    int serial_windows_ = 0;
    std::uint64_t seen_notifications_ = 0;
};

}  // namespace callgate
