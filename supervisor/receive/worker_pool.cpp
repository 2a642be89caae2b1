#include "supervisor/receive/worker_pool.hpp"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/clock.hpp"
#include "base/process/open_files.hpp"
#include "supervisor/receive/worker.hpp"

namespace callgate {

WorkerPool::WorkerPool(kernel::NotificationSource& source, WorkerNeeds& needs,
                       std::function<void()> wake_watchdog)
    : source_(source), needs_(needs), wake_watchdog_(std::move(wake_watchdog)) {
    CPU_ZERO(&processors_);
    if (::sched_getaffinity(0, sizeof processors_, &processors_) != 0) CPU_SET(0, &processors_);
    const int processors = CPU_COUNT(&processors_);
    usable_slots_ = std::min(processors, max_slots);
    chooser_ = DispatchChooser(processors);
    // Slots are spread over the available processors.
    for (int number = 0, seen = 0, slot = 0; number < CPU_SETSIZE && slot < usable_slots_; ++number) {
        if (!CPU_ISSET(static_cast<std::size_t>(number), &processors_)) continue;
        if (seen++ * usable_slots_ >= slot * processors) {
            slots_[static_cast<std::size_t>(slot++)].processor = number;
        }
    }
}

void WorkerPool::prepare() {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // only to make blocking calls return EINTR
    ::sigaction(Worker::interrupt_signal, &action, nullptr);
    may_block_ = std::min(max_blocked, blocked_calls_for_open_files());
    const std::lock_guard lock(mutex_);
    if (!occupy(slots_[0])) {
        throw std::system_error(EAGAIN, std::generic_category(), "cannot start a receiving thread");
    }
}

void WorkerPool::start() {
    source_.wake_synchronously(true);
    started_.store(true);
    started_.notify_all();
}

/// Gives the slot to an idle worker, or to a new one. Returns false if the system gives no further thread.
bool WorkerPool::occupy(WorkerSlot& slot) {
    if (!idle_.empty()) {
        Worker* const worker = idle_.back();
        idle_.pop_back();
        worker->set_slot(&slot);
        worker->called.notify_one();
    } else {
        try {
            workers_.push_back(std::make_unique<Worker>(*this, &slot));
        } catch (const std::system_error&) {
            return false;
        }
    }
    slot.occupied = true;
    return true;
}

/// Gives every slot a worker that should receive or has queued calls. A failure is retried at the next tick.
void WorkerPool::occupy_slots() {
    for (WorkerSlot& slot : slots_) {
        if (slot.occupied || stopping_.load() || (!wants(slot) && slot.close())) continue;
        if (!occupy(slot)) return;
    }
}

/// Gives the slot of `from`, which is about to block, to another worker. Returns false if there is none, and
/// calls would wait.
bool WorkerPool::take_over(Worker& from) {
    WorkerSlot* const slot = from.slot();
    if (slot == nullptr || stopping_.load()) return true;
    if ((!wants(*slot) && slot->close()) || occupy(*slot)) return true;
    const bool others = std::ranges::count_if(slots_, &WorkerSlot::occupied) > 1;
    if (!others || !slot->close()) return false;
    slot->occupied = false;
    return true;
}

bool WorkerPool::wants(const WorkerSlot& slot) const {
    return &slot - slots_.data() < wanted_.load(std::memory_order_relaxed);
}

/// For a worker without a slot, or with one that is not wanted: waits for a slot or for the pool's end.
void WorkerPool::find_slot(Worker& worker) {
    std::unique_lock lock(mutex_);
    if (worker.slot() != nullptr) worker.slot()->occupied = false;
    worker.set_slot(nullptr);
    for (WorkerSlot& slot : slots_) {
        if (slot.occupied || !wants(slot)) continue;
        slot.occupied = true;
        return worker.set_slot(&slot);
    }
    idle_.push_back(&worker);
    worker.called.wait(
        lock, [this, &worker] { return worker.slot() != nullptr || worker.resumes || stopping_.load(); });
    worker.resumes = false;
    std::erase(idle_, &worker);
}

void WorkerPool::resume(approval::ParkedCalls calls) {
    const std::lock_guard lock(mutex_);
    if (stopping_.load()) return;
    const bool attended = !resumed_.empty();
    resumed_.splice(resumed_.end(), calls);
    if (!attended) attend_resumed();
}

/// With mutex_ held: lets an idle worker, or a new one, take the resumed calls. A failure is retried at the
/// next tick.
void WorkerPool::attend_resumed() {
    if (resumed_.empty()) return;
    if (!idle_.empty()) {
        Worker* const worker = idle_.back();
        idle_.pop_back();
        worker->resumes = true;
        worker->called.notify_one();
        return;
    }
    try {
        workers_.push_back(std::make_unique<Worker>(*this, nullptr));
    } catch (const std::system_error&) {
        if (wake_watchdog_) wake_watchdog_();
    }
}

/// Handles the next call that has its answer. Returns false if there is none.
bool WorkerPool::handle_resumed(Worker& worker) {
    approval::ParkedCalls one;
    {
        const std::lock_guard lock(mutex_);
        if (resumed_.empty()) return false;
        ++resumed_taken_;
        one.splice(one.end(), resumed_, resumed_.begin());
    }
    worker.handle(std::move(one.front()));
    return true;
}

/// For a worker that lost its slot to the watchdog and has ended its call.
void WorkerPool::no_longer_blocked(Worker& worker) {
    const std::lock_guard lock(mutex_);
    --blocked_;
    worker.set_slot(nullptr);
}

void WorkerPool::end_worker(Worker& worker) {
    const std::lock_guard lock(mutex_);
    if (worker.slot() != nullptr) worker.slot()->occupied = false;
    worker.set_slot(nullptr);
}

/// Returns true if the call was queued to the slot that last served this thread. Otherwise this slot serves
/// the thread from now on.
bool WorkerPool::send_to_affine(const kernel::Notification& call, WorkerSlot& here) {
    constexpr auto relaxed = std::memory_order_relaxed;
    std::atomic<std::uint8_t>& affinity = affinities_[static_cast<std::size_t>(call.thread) % max_affinities];
    const auto own = static_cast<std::uint8_t>(&here - slots_.data() + 1);
    const std::uint8_t known = affinity.load(relaxed);
    if (known == own) return false;
    if (known != 0 && slots_[known - 1U].queue(call)) return true;
    affinity.store(own, relaxed);
    return false;
}

void WorkerPool::receive_as(DispatchMode how) {
    if (dispatch_.exchange(how) == how) return;
    source_.wake_synchronously(how != DispatchMode::parallel);
    wanted_.store(how == DispatchMode::single ? 1 : usable_slots_);
    const std::lock_guard lock(mutex_);
    occupy_slots();
}

void WorkerPool::adapt() {
    const std::int64_t now = monotonic_ns();
    Traffic seen;
    const std::int64_t before = std::exchange(last_tick_ns_, now);
    seen.elapsed_ns = now - before;
    seen.calls = needs_.notifications.load() - seen_notifications_;
    seen.samples = samples_.exchange(0);
    seen.overlaps = overlaps_.exchange(0);
    seen.handling_ns = handling_ns_.exchange(0);
    if (before != 0) receive_as(chooser_.choose(seen));
}

/// A worker whose call lasts longer than a tick loses its slot to another.
void WorkerPool::notice_stuck() {
    for (const auto& worker : workers_) {
        if (worker->ended.load() || !worker->mark_stuck()) continue;
        ++blocked_;
        constexpr std::int64_t cautious_ns = 10'000'000'000;
        cautious_until_ns_.store(monotonic_ns() + cautious_ns);
        if (worker->slot() != nullptr) worker->slot()->occupied = false;
    }
    occupy_slots();
}

/// Whether any call is blocked.
bool WorkerPool::interrupt_waiting() {
    bool waiting = false;
    for (const auto& worker : workers_) {
        if (worker->ended.load() || !worker->waits()) continue;
        waiting = true;
        worker->interrupt_if_needed();
    }
    return waiting;
}

bool WorkerPool::tick() {
    adapt();
    bool waiting = false;
    {
        const std::lock_guard lock(mutex_);
        notice_stuck();
        if (!resumed_.empty() && resumed_seen_ == resumed_taken_) attend_resumed();
        resumed_seen_ = resumed_taken_;
        waiting = interrupt_waiting() || !resumed_.empty();
    }
    const std::uint64_t notifications = needs_.notifications.load();
    quiet_ticks_ = waiting || notifications != seen_notifications_ ? 0 : quiet_ticks_ + 1;
    seen_notifications_ = notifications;
    constexpr int ticks_before_sleep = 50;
    if (quiet_ticks_ < ticks_before_sleep) return true;
    quiet_ticks_ = 0;
    watchdog_asleep_.store(true);
    // A call may have begun before it could see that the watchdog sleeps.
    if (needs_.notifications.load() != seen_notifications_) {
        watchdog_asleep_.store(false);
        return true;
    }
    last_tick_ns_ = 0;  // the first tick after a pause has no length
    return false;
}

/// Interrupts workers until `done` holds for all of them. Gives up on workers that hang in a file system.
void WorkerPool::interrupt_until(bool (*done)(const Worker&)) {
    constexpr auto patience = std::chrono::seconds(2);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        bool all = true;
        {
            const std::lock_guard lock(mutex_);
            for (const auto& worker : workers_) {
                if (done(*worker)) continue;
                all = false;
                worker->called.notify_one();
                worker->interrupt();
            }
        }
        if (all || std::chrono::steady_clock::now() > deadline) return;
        ::sched_yield();
    }
}

void WorkerPool::stop() {
    stopping_.store(true);
    interrupt_until([](const Worker& worker) { return !worker.handles(); });
    const std::lock_guard lock(mutex_);
    resumed_.clear();
}

WorkerPool::~WorkerPool() {
    stop();
    started_.store(true);
    started_.notify_all();
    interrupt_until([](const Worker& worker) { return worker.ended.load(); });
    for (auto& worker : workers_) {
        // A thread that hangs in a file system cannot be ended; it ends with the process.
        if (worker->ended.load()) {
            worker->join();
        } else {
            worker->detach();
            static_cast<void>(worker.release());
        }
    }
}

}  // namespace callgate
