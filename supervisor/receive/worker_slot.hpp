// A place at which one thread receives, with the calls that others took from the kernel for it.
//
// The kernel gives a waiting call to whichever receiver asks first. In affine mode (dispatch_mode.hpp) that
// receiver queues it to the slot that serves its caller. On that slot's processor no other thread has to be
// woken for it. No call is queued where nobody looks: a receiver attends its slot except while it waits for
// the kernel.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "supervisor/kernel/listener.hpp"

namespace callgate {

class WorkerSlot {
public:
    int processor = 0;
    bool occupied = false;  // guarded by the pool's lock

    /// Any thread. Returns false if nobody attends, or if so many wait already that the caller of this
    /// handles it sooner.
    bool queue(const kernel::Notification& call) {
        const std::lock_guard lock(mutex_);
        if (!attended_ || count_ == calls_.size()) return false;
        calls_[(first_ + count_++) % calls_.size()] = call;
        return true;
    }
    /// The slot's own thread: the next queued call. If there is none, the slot is unattended from now on.
    std::optional<kernel::Notification> next() {
        if (!attended_) return std::nullopt;  // only the slot's own thread sets it
        const std::lock_guard lock(mutex_);
        if (count_ == 0) {
            attended_ = false;
            return std::nullopt;
        }
        --count_;
        const std::size_t at = first_;
        first_ = (first_ + 1) % calls_.size();
        return calls_[at];
    }
    /// The slot's own thread.
    void attend() {
        const std::lock_guard lock(mutex_);
        attended_ = true;
    }
    /// Call before leaving the slot empty. Returns false while calls are queued.
    bool close() {
        const std::lock_guard lock(mutex_);
        if (count_ > 0) return false;
        attended_ = false;
        return true;
    }

private:
    std::mutex mutex_;
    // Few: if this many wait, the thread that took the call serves its caller itself from then on.
    std::array<kernel::Notification, 4> calls_;
    std::size_t first_ = 0, count_ = 0;
    bool attended_ = false;
};

}  // namespace callgate
