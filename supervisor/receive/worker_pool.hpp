// The threads that take notifications from the kernel and handle them, each call from beginning to end.
//
// While calls come one at a time, a single thread waits for the next one; while they overlap, several do
// (dispatch_mode.hpp). A receiving thread occupies a slot. A thread that is about to block (a FIFO, a
// connect) gives its slot away first. The watchdog takes it from a thread that blocks unannounced (a page or
// a file system that hangs). So a call that blocks delays only its own caller. Blocked threads are
// interrupted when their caller dies or has a signal to handle (docs/dev/kernel-facts.md 10b, 11).
//
// Every thread has its own working directory and umask, and blocks all signals but the one that interrupts
// it. It inherits the base Landlock domain and the empty capability set of the thread that starts it.
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
#include "supervisor/kernel/listener.hpp"
#include "supervisor/receive/dispatch_mode.hpp"
#include "supervisor/receive/families.hpp"
#include "supervisor/receive/worker_slot.hpp"

namespace callgate {

class WorkerPool {
public:
    /// At most this many calls may be blocked at once (docs/dev/architecture.md), or fewer if this process
    /// may not open enough files. A further one is denied.
    static constexpr int max_blocked = 512;

    /// `source` and `needs` outlive it. Call `tick` every `tick_interval_ms` from `start` on, until it
    /// returns false. Any thread calls `wake_watchdog` when calls come again after such a pause.
    WorkerPool(kernel::NotificationSource& source, WorkerNeeds& needs, std::function<void()> wake_watchdog);
    /// Ends all threads.
    ~WorkerPool();

    /// Makes the first thread, which waits for `start`. Throws std::system_error.
    void prepare();
    /// After `prepare`, when `source` receives.
    void start();
    /// The watchdog; event loop only. Returns false if nothing happens and it may sleep.
    bool tick();
    /// Handles parked calls anew that have their answers, beside those that are received. Any thread.
    void resume(approval::ParkedCalls calls);
    /// When it returns, no call is being handled and none will be. The threads stay where they wait: each
    /// would need a processor to end, which can take longer than all else at a run's end.
    void stop();

    static constexpr int tick_interval_ms = 20;

private:
    class Worker;
    static constexpr int max_slots = 4;
    static constexpr std::size_t max_affinities = 4096;

    // With mutex_ held.
    bool occupy(WorkerSlot& slot);
    void occupy_slots();
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
    bool send_to_affine(const kernel::Notification& call, WorkerSlot& here);

    void interrupt_until(bool (*done)(const Worker&));
    void receive_as(DispatchMode how);
    void adapt();

    kernel::NotificationSource& source_;
    WorkerNeeds& needs_;
    std::function<void()> wake_watchdog_;
    cpu_set_t processors_{};  // that this process may run on
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
    std::atomic<int> wanted_{1};                  // slots
    std::atomic<DispatchMode> dispatch_{DispatchMode::single};
    std::atomic<bool> started_{false}, stopping_{false};
    std::atomic<bool> watchdog_asleep_{false};
    std::atomic<std::int64_t> cautious_until_ns_{0};
    /// Affine mode: the slot (from 1) that answered a caller last. Threads that share an entry share a slot.
    std::array<std::atomic<std::uint8_t>, max_affinities> affinities_{};

    // Traffic since the last tick.
    std::atomic<std::uint32_t> samples_{0}, overlaps_{0};
    std::atomic<std::int64_t> handling_ns_{0};

    // The watchdog's own.
    DispatchChooser chooser_{1};
    std::int64_t last_tick_ns_ = 0;
    int quiet_ticks_ = 0;
    std::uint64_t seen_notifications_ = 0;
};

}  // namespace callgate
