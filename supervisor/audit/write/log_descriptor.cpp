#include "supervisor/audit/write/log_descriptor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/clock.hpp"

namespace callgate::audit {

namespace {

void set_append(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_APPEND) == 0) static_cast<void>(::fcntl(fd, F_SETFL, flags | O_APPEND));
}

bool writable(int fd, int milliseconds) {
    pollfd one{fd, POLLOUT, 0};
    return ::poll(&one, 1, milliseconds) > 0;
}

}  // namespace

Result<DescriptorKind> prepare_descriptor(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return errno_code();
    if ((::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) return errno_code(EBADF);
    static_cast<void>(::fcntl(fd, F_SETFD, FD_CLOEXEC));
    if (S_ISSOCK(status.st_mode)) return DescriptorKind::socket;
    if (!S_ISREG(status.st_mode)) return DescriptorKind::other;
    set_append(fd);
    return DescriptorKind::file;
}

ssize_t write_some(int fd, DescriptorKind kind, const char* data, std::size_t size) {
    if (kind == DescriptorKind::file) return ::write(fd, data, size);
    if (kind == DescriptorKind::socket) return ::send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!writable(fd, 0)) {
        errno = EAGAIN;
        return -1;
    }
    // A pipe that is writable takes this much at once (pipe(7)).
    return ::write(fd, data, std::min<std::size_t>(size, PIPE_BUF));
}

bool wait_for_reader(int fd, const std::atomic<std::int64_t>& until) {
    constexpr int slice_ms = 50;
    const std::int64_t end = until.load(std::memory_order_relaxed);
    if (end != 0 && monotonic_ns() >= end) return false;
    static_cast<void>(writable(fd, slice_ms));
    return true;
}

}  // namespace callgate::audit
