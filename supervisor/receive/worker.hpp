// A receiving thread. It takes calls at its slot and handles each from beginning to end.
//
// The pool's lock guards `slot_` and the pool's idle list; the thread itself may read its own slot without
// it. All other members are the thread's own, or atomic because the watchdog looks at them.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "supervisor/receive/worker_pool.hpp"

namespace callgate {

class WorkerPool::Worker final : public calls::Blocking {
public:
    Worker(WorkerPool& pool, WorkerSlot* slot) : pool_(pool), slot_(slot), thread_([this] { run(); }) {}
    void join() { thread_.join(); }
    void detach() { thread_.detach(); }

    bool enter() override;
    void leave() override;
    Interruption interruption() override { return interruption_.load(); }
    bool expects_blocking() override { return monotonic_ns() < pool_.cautious_until_ns_.load(); }

    /// Watchdog: marks a call that lasts as stuck. Returns true if it was not marked before.
    bool mark_stuck();
    /// Watchdog: interrupts a blocked call if its caller is gone or has a signal.
    void interrupt_if_needed();
    void interrupt() { ::pthread_kill(thread_.native_handle(), interrupt_signal); }
    /// Whether it is in a call.
    [[nodiscard]] bool handles() const { return (state_.load() & busy_flag) != 0; }
    [[nodiscard]] bool waits() const { return (state_.load() & (stuck_flag | blocked_flag)) != 0; }
    /// With the pool's lock held.
    [[nodiscard]] WorkerSlot* slot() const { return slot_; }
    void set_slot(WorkerSlot* slot) { slot_ = slot; }

    std::condition_variable called;  // while idle: to a slot, or to resumed calls
    bool resumes = false;            // called to resumed calls; guarded by the pool's lock
    std::atomic<bool> ended{false};

private:
    // The state is a count of calls, and flags of the current one.
    static constexpr std::uint64_t busy_flag = 1, stuck_flag = 2, blocked_flag = 4, flags = 7, step = 8;
    static constexpr int interrupt_signal = SIGURG;  // ignored by default, and nobody else sends it to us
    friend class WorkerPool;

    void run();
    void prepare_thread();
    void stay_on(int processor);
    void change_slot();
    bool receive();
    void answer(calls::Call& context, const Families& families);
    void answer_by(const Judges& judges, kernel::PendingCall& call, const enforce::CallEntry& entry,
                   std::int64_t started_ns, std::vector<approval::Approval>* approvals);
    [[nodiscard]] const char* take_identity(calls::Call& context,
                                            std::optional<kernel::TakenIdentity>& taken) const;
    void handle(const kernel::Notification& notification, bool another_waits);
    void handle(approval::ParkedCall parked);
    bool begin(const kernel::Notification& notification);
    void serve(kernel::PendingCall& call, std::int64_t started_ns,
               std::vector<approval::Approval>* approvals);
    [[nodiscard]] bool refuse(kernel::PendingCall& call);
    void end();
    void sample(bool another_waits, std::int64_t since_ns);
    void clear_interruption();

    WorkerPool& pool_;
    WorkerSlot* slot_;
    int stays_on_ = -2;  // -1: any processor; -2: not yet known
    std::uint32_t handled_ = 0;
    calls::CallerInfo caller_info_;
    calls::WorkerBuffers buffers_;
    calls::StaticPaths static_paths_;
    std::atomic<std::uint64_t> state_{0};
    std::uint64_t last_seen_ = 0;  // watchdog only
    std::mutex interrupting_;
    std::atomic<std::uint64_t> id_{0};
    std::atomic<pid_t> caller_{0};
    std::atomic<Interruption> interruption_{Interruption::none};
    std::thread thread_;
};

}  // namespace callgate
