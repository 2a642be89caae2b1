// The seccomp notification descriptor: the only code that knows its ioctls (seccomp_unotify(2),
// include/uapi/linux/seccomp.h).
//
// A Listener owns the descriptor; no other process may hold a copy (docs/dev/kernel-facts.md 3). An attacker
// controls the arguments inside a notification, never `id`, `thread` or `call`. All functions may be called
// by any thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate::kernel {

/// A stopped system call.
struct Notification {
    std::uint64_t id = 0;
    pid_t thread = 0;  // thread id of the caller
    /// The number; `foreign_call` where another architecture gives it another meaning.
    std::uint32_t call = 0;
    std::array<std::uint64_t, 6> arguments{};

    static constexpr std::uint32_t foreign_call = 0xffffffff;

    /// An int argument: the kernel ignores the high half (docs/dev/kernel-facts.md 40).
    [[nodiscard]] int integer(int index) const {
        return static_cast<int>(static_cast<std::uint32_t>(arguments[static_cast<std::size_t>(index)]));
    }
};

/// The answer to the kernel. `value` counts only with `error` 0; `error` is a positive errno (512: restart,
/// see docs/dev/kernel-facts.md 10b).
struct Answer {
    bool let_continue = false;
    std::int64_t value = 0;
    int error = 0;
};

/// The seam over the kernel, so that protocol errors can be tested with a fake.
class NotificationSource {
public:
    virtual ~NotificationSource() = default;
    /// Blocks for the next notification. ENOENT: the whole tree is gone, or one caller died meanwhile (ask
    /// `finished`); EINTR: a signal.
    virtual Result<Notification> receive() = 0;
    /// ENOENT: the caller died or was interrupted, EINPROGRESS: already answered.
    virtual Result<void> answer(std::uint64_t id, const Answer& answer) = 0;
    /// Installs a copy of `fd` in the caller and returns its number there. EMFILE: the caller's limit.
    virtual Result<int> add_descriptor(std::uint64_t id, int fd, bool close_on_exec) = 0;
    /// Puts a copy of `fd` at `number` in the caller, closed on exec, in place of what is there.
    virtual Result<void> put_descriptor(std::uint64_t /*id*/, int /*fd*/, int /*number*/) {
        return errno_code(ENOSYS);
    }
    /// Whether the caller still waits for an answer.
    virtual bool waiting(std::uint64_t id) = 0;
    /// Whether the kernel may go on with this call by itself. It may not where no Landlock domain holds what
    /// a second look at the caller's memory could find (container/container_source.hpp).
    virtual bool may_continue(const Notification& /*call*/) { return true; }
    /// Whether every task that could notify is gone.
    virtual bool finished() = 0;
    /// Whether a notification is waiting to be received.
    virtual bool pending() = 0;
    /// Sets SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP; false if the kernel lacks it (before 6.6).
    virtual bool wake_synchronously(bool on) = 0;
};

class Listener final : public NotificationSource {
public:
    /// Call this first.
    void open(UniqueFd fd) { fd_ = std::move(fd); }
    Result<Notification> receive() override;
    Result<void> answer(std::uint64_t id, const Answer& answer) override;
    Result<int> add_descriptor(std::uint64_t id, int fd, bool close_on_exec) override;
    Result<void> put_descriptor(std::uint64_t id, int fd, int number) override;
    bool waiting(std::uint64_t id) override;
    bool finished() override;
    bool pending() override;
    bool wake_synchronously(bool on) override;

private:
    UniqueFd fd_;
};

/// Takes the listener numbered `number` out of process `pid`, by pidfd_getfd(2). Errors: its errno.
[[nodiscard]] Result<UniqueFd> take_listener(pid_t pid, int number);

/// A stopped call and the duty to answer it exactly once. If it is destroyed unanswered, it denies.
class PendingCall {
public:
    /// No call: there is nothing to answer.
    PendingCall() = default;
    PendingCall(NotificationSource& source, const Notification& notification)
        : source_(&source), notification_(notification) {}
    PendingCall(PendingCall&& other) noexcept
        : source_(std::exchange(other.source_, nullptr)), notification_(other.notification_) {}
    PendingCall& operator=(PendingCall&&) = delete;
    /// Gives the duty back to the call that it was moved from.
    void take_back(PendingCall& other) noexcept { source_ = std::exchange(other.source_, nullptr); }
    ~PendingCall();

    [[nodiscard]] const Notification& notification() const { return notification_; }
    [[nodiscard]] bool waiting() const;
    [[nodiscard]] bool answered() const { return source_ == nullptr; }
    /// Whether the answer was to continue the call in the kernel.
    [[nodiscard]] bool continued() const { return continued_; }

    /// Whether `let_continue` would let the kernel go on.
    [[nodiscard]] bool may_continue() const {
        return source_ == nullptr || source_->may_continue(notification_);
    }

    /// Each returns whether the answer reached the caller (false: it died or was interrupted). A call that
    /// may not be continued is denied.
    bool let_continue() {
        if (!may_continue()) return fail(EACCES);
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
    /// Installs a copy of `fd` in the caller, which goes on waiting. Returns its number there.
    Result<int> install(const UniqueFd& fd, bool close_on_exec);
    /// Puts `fd` in the place of the caller's descriptor `number`, and answers 0. Returns whether the caller
    /// has it; otherwise the call was answered with the errno.
    bool put_in_place(UniqueFd fd, int number);

private:
    static constexpr int restart_call = 512;  // ERESTARTSYS
    bool send(const Answer& answer);

    NotificationSource* source_ = nullptr;
    Notification notification_{};
    bool continued_ = false;
};

}  // namespace callgate::kernel
