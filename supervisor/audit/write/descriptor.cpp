#include "supervisor/audit/write/descriptor.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/clock.hpp"

namespace callgate::audit {

namespace {

bool writable(int fd, int milliseconds) {
    pollfd one{fd, POLLOUT, 0};
    return ::poll(&one, 1, milliseconds) > 0;
}

}  // namespace

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
