#include "supervisor/kernel/listener.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/test_switch.hpp"

namespace callgate::kernel {

namespace {

// Missing from the headers of Debian 12 (docs/dev/kernel-facts.md 2). The flags go by value.
constexpr unsigned long ioctl_set_flags = SECCOMP_IOW(4, __u64);
constexpr unsigned long sync_wake_up = 1;

#if defined(__x86_64__)
constexpr std::uint32_t native_architecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t native_architecture = AUDIT_ARCH_AARCH64;
#endif

short poll_now(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0 ? entry.revents : short{0};
}

}  // namespace

Result<Notification> Listener::receive() {
    seccomp_notif raw;
    std::memset(&raw, 0, sizeof raw);  // the kernel refuses other contents
    if (::ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_RECV, &raw) != 0) return errno_code();
    Notification notification;
    notification.id = raw.id;
    notification.thread = static_cast<pid_t>(raw.pid);
    notification.call = raw.data.arch == native_architecture ? static_cast<std::uint32_t>(raw.data.nr)
                                                             : Notification::foreign_call;
    for (std::size_t index = 0; index < 6; ++index) notification.arguments[index] = raw.data.args[index];
    return notification;
}

Result<void> Listener::answer(std::uint64_t id, const Answer& answer) {
    seccomp_notif_resp raw{};
    raw.id = id;
    if (answer.let_continue) {
        raw.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else if (answer.error != 0) {
        raw.error = -answer.error;
    } else {
        raw.val = answer.value;
    }
    if (::ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_SEND, &raw) != 0) return errno_code();
    return {};
}

Result<int> Listener::add_descriptor(std::uint64_t id, int fd, bool close_on_exec) {
    seccomp_notif_addfd raw{};
    raw.id = id;
    raw.srcfd = static_cast<__u32>(fd);
    raw.newfd_flags = close_on_exec ? O_CLOEXEC : 0;
    const int number = ::ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &raw);
    if (number < 0) return errno_code();
    return number;
}

Result<void> Listener::put_descriptor(std::uint64_t id, int fd, int number) {
    seccomp_notif_addfd raw{};
    raw.id = id;
    raw.flags = SECCOMP_ADDFD_FLAG_SETFD;
    raw.srcfd = static_cast<__u32>(fd);
    raw.newfd = static_cast<__u32>(number);
    raw.newfd_flags = O_CLOEXEC;
    if (::ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &raw) < 0) return errno_code();
    return {};
}

bool Listener::waiting(std::uint64_t id) {
    return ::ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

bool Listener::finished() { return (poll_now(fd_.get()) & POLLHUP) != 0; }

bool Listener::pending() { return (poll_now(fd_.get()) & POLLIN) != 0; }

bool Listener::wake_synchronously(bool on) {
    return ::ioctl(fd_.get(), ioctl_set_flags, on ? sync_wake_up : 0UL) == 0;
}

Result<UniqueFd> take_listener(pid_t pid, int number) {
    UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process) return errno_code();
    UniqueFd listener(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), number, 0)));
    if (!listener) return errno_code();
    return listener;
}

PendingCall::~PendingCall() {
    if (source_ != nullptr) fail(EPERM);
}

bool PendingCall::waiting() const {
    return source_ != nullptr && (!check_enabled("still-waiting") || source_->waiting(notification_.id));
}

bool PendingCall::send(const Answer& answer) {
    NotificationSource* source = std::exchange(source_, nullptr);
    if (source == nullptr) return false;
    // The ioctl can be interrupted only before the kernel took the answer, so a repetition cannot answer
    // twice.
    for (;;) {
        const auto sent = source->answer(notification_.id, answer);
        if (sent) return true;
        if (sent.error().value() != EINTR) return false;
    }
}

Result<int> PendingCall::install(const UniqueFd& fd, bool close_on_exec) {
    if (source_ == nullptr) return boost::system::error_code(ESRCH, boost::system::system_category());
    auto number = source_->add_descriptor(notification_.id, fd.get(), close_on_exec);
    while (!number && number.error().value() == EINTR) {
        number = source_->add_descriptor(notification_.id, fd.get(), close_on_exec);
    }
    return number;
}

bool PendingCall::hand_over(UniqueFd fd, bool close_on_exec, int& error) {
    error = 0;
    if (source_ == nullptr) return false;
    const auto number = install(fd, close_on_exec);
    fd.reset();
    if (number) return succeed(*number);
    error = number.error().value();
    return fail(error);
}

bool PendingCall::put_in_place(UniqueFd fd, int number) {
    if (source_ == nullptr) return false;
    auto put = source_->put_descriptor(notification_.id, fd.get(), number);
    while (!put && put.error().value() == EINTR)
        put = source_->put_descriptor(notification_.id, fd.get(), number);
    fd.reset();
    return put ? succeed(0) : (fail(put.error().value()), false);
}

}  // namespace callgate::kernel
