// The threads that take notifications off the kernel and handle them, each call from beginning to end.
//
// One thread at a time waits for the next call while calls come one at a time; several do while they overlap
// (reception.hpp). Who receives sits at a slot; whoever is about to block (a FIFO, a connect) lets another
// take it first; one that blocks unannounced (a page or a file system that hangs) is noticed by the watchdog
// and loses it. So nobody waits for a stranger: a call that blocks delays only its own caller. Blocked
// threads are interrupted when their caller dies or has a signal to handle (kernel-facts 10b, 11).
//
// Every thread has a working directory and umask of its own, blocks all signals but the one that interrupts
// it, and inherits the base Landlock domain and the empty capability set of the thread that starts them.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/decide/supervision.hpp"
#include "supervisor/kernel/listener.hpp"
#include "supervisor/receive/worker_slot.hpp"
#include "supervisor/receive/dispatch_mode.hpp"

namespace callgate {

class WorkerPool {
public:
    /// At most this many calls may be blocked at once (architecture.md), or what the open files of this
    /// process are enough for; a further one is denied.
    static constexpr int max_blocked = 512;

    /// Both outlive this. `tick` is to be called every `tick_interval_ms` from `start` on, until it returns
    /// false; `wake_watchdog` is called (by any thread) when calls come again after such a pause.
    WorkerPool(kernel::NotificationSource& source, calls::Supervision& run,
              std::function<void()> wake_watchdog);
    /// Ends all threads.
    ~WorkerPool();

    /// Makes the first thread, which waits until there is something to receive from. Throws
    /// std::system_error.
    void prepare();
    /// After `prepare`, when `source` receives.
    void start();
    /// The watchdog; event loop only. False: nothing happens, it may sleep.
    bool tick();
    /// Calls that were parked have their answers: they are handled anew, beside what is received. Any thread.
    void resume(approval::ParkedCalls calls);
    /// When it returns nobody handles a call any more, and none will be. The threads stay where they wait:
    /// who would end them waits for each to come to a processor, which can take longer than all else at a
    /// run's end.
    void stop();

    static constexpr int tick_interval_ms = 20;

private:
    class Worker;
    static constexpr int max_slots = 4;
    static constexpr std::size_t max_homes = 4096;

    // With mutex_ held.
    bool fill_slot(WorkerSlot& slot);
    void fill_slots();
    bool take_over(Worker& from);
    void notice_stuck();
    bool interrupt_waiting();

    // Any worker.
    [[nodiscard]] bool wants(const WorkerSlot& slot) const;
    void find_slot(Worker& worker);
    void no_longer_blocked(Worker& worker);
    void end_worker(Worker& worker);
    bool handle_resumed(Worker& worker);
    void attend_resumed();
    bool send_home(const kernel::Notification& call, WorkerSlot& here);

    void interrupt_until(bool (*done)(const Worker&));
    void receive_as(DispatchMode how);
    void adapt();

    kernel::NotificationSource& source_;
    calls::Supervision& run_;
    std::function<void()> wake_watchdog_;
    cpu_set_t processors_{};  // those that we may run on
    std::array<WorkerSlot, max_slots> slots_;
    int usable_slots_ = 1;

    std::mutex mutex_;
    std::list<std::unique_ptr<Worker>> workers_;  // guarded by mutex_
    std::vector<Worker*> idle_;                   // without a slot, waiting for one; guarded by mutex_
    int blocked_ = 0;                             // guarded by mutex_
    int may_block_ = max_blocked;                 // since `prepare`
    approval::ParkedCalls resumed_;               // guarded by mutex_
    std::uint64_t resumed_taken_ = 0;             // guarded by mutex_
    std::uint64_t resumed_seen_ = 0;              // the watchdog's
    std::atomic<int> wanted_{1};                  // seats
    std::atomic<DispatchMode> dispatch_{DispatchMode::alone};
    std::atomic<bool> started_{false}, stopping_{false};
    std::atomic<bool> watchdog_asleep_{false};
    std::atomic<std::int64_t> cautious_until_ns_{0};
    /// In a crowd: which slot (from 1) answered a caller last. Threads that share a place here share a home.
    std::array<std::atomic<std::uint8_t>, max_homes> homes_{};

    // What was seen since the last tick.
    std::atomic<std::uint32_t> samples_{0}, overlaps_{0};
    std::atomic<std::int64_t> handling_ns_{0};

    // The watchdog's own.
    DispatchChooser chooser_{1};
    std::int64_t last_tick_ns_ = 0;
    int quiet_ticks_ = 0;
    std::uint64_t seen_notifications_ = 0;
};

}  // namespace callgate
