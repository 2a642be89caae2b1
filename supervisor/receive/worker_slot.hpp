// A place at which one thread receives, and the calls that others took off the kernel for it.
//
// The kernel gives a waiting call to whichever receiver asks first. In a crowd (reception.hpp) a receiver
// leaves it at the slot where its caller is at home: on that slot's processor nobody else has to be woken for
// it. Nothing is left where nobody looks: a receiver attends its slot except while it waits for the kernel.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "supervisor/kernel/listener.hpp"

namespace callgate {

class WorkerSlot {
public:
    int processor = 0;
    bool taken = false;  // guarded by the pool's lock

    /// Any thread. False: nobody attends, or so much waits already that whoever asks handles it sooner.
    bool leave(const kernel::Notification& call) {
        const std::lock_guard lock(mutex_);
        if (!attended_ || count_ == calls_.size()) return false;
        calls_[(first_ + count_++) % calls_.size()] = call;
        return true;
    }
    /// The thread that sits here: the next call that was left. None: the slot is unattended from now on.
    std::optional<kernel::Notification> next() {
        if (!attended_) return std::nullopt;  // only who sits here changes it
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
    /// The thread that sits here.
    void attend() {
        const std::lock_guard lock(mutex_);
        attended_ = true;
    }
    /// Whoever leaves without a successor. False: calls wait here.
    bool close() {
        const std::lock_guard lock(mutex_);
        if (count_ > 0) return false;
        attended_ = false;
        return true;
    }

private:
    std::mutex mutex_;
    // Few: where so many wait, whoever asks makes the caller at home with itself instead.
    std::array<kernel::Notification, 4> calls_;
    std::size_t first_ = 0, count_ = 0;
    bool attended_ = false;
};

}  // namespace callgate
