// A stopped call and the duty to answer it exactly once. If it is destroyed unanswered, it denies.
#pragma once

#include <cstdint>
#include <utility>

#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/kernel/listener.hpp"

namespace callgate::kernel {

class PendingCall {
public:
    PendingCall(NotificationSource& source, const Notification& notification)
        : source_(&source), notification_(notification) {}
    PendingCall(PendingCall&& other) noexcept
        : source_(std::exchange(other.source_, nullptr)), notification_(other.notification_) {}
    PendingCall& operator=(PendingCall&&) = delete;
    /// Gives the duty back to the call that it was moved from.
    void take_back(PendingCall& other) noexcept { source_ = std::exchange(other.source_, nullptr); }
    ~PendingCall();

    [[nodiscard]] const Notification& notification() const { return notification_; }
    [[nodiscard]] bool waiting() const {
        return source_ != nullptr && (!check_enabled("still-waiting") || source_->waiting(notification_.id));
    }
    [[nodiscard]] bool answered() const { return source_ == nullptr; }
    /// Whether the answer was to continue the call in the kernel.
    [[nodiscard]] bool continued() const { return continued_; }

    /// Each returns whether the answer reached the caller (false: it died or was interrupted).
    bool let_continue() {
        continued_ = true;
        return send({.let_continue = true});
    }
    bool fail(int error) { return send({.error = error}); }
    bool succeed(std::int64_t value) { return send({.value = value}); }
    /// Makes the kernel restart the call, or end it with EINTR, as a signal would. Only while a signal is
    /// pending (docs/dev/kernel-facts.md 10b).
    bool interrupt() { return send({.error = restart_call}); }

    /// Installs `fd` in the caller and answers with its number there. The descriptor is closed before the
    /// answer, so that the caller never sees a second holder (docs/dev/kernel-facts.md 13). If ADDFD fails,
    /// the call is answered with its errno, which is returned through `error` (0 otherwise).
    bool hand_over(UniqueFd fd, bool close_on_exec, int& error);

private:
    static constexpr int restart_call = 512;  // ERESTARTSYS
    bool send(const Answer& answer);

    NotificationSource* source_;
    Notification notification_;
    bool continued_ = false;
};

}  // namespace callgate::kernel
