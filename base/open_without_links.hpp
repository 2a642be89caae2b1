// Opens a path that was resolved before (openat2(2), RESOLVE_NO_SYMLINKS).
//
// An attacker may put a symbolic link at any component after the path was resolved. The open then fails with
// ELOOP, and leads nowhere else.
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "base/unique_fd.hpp"

namespace callgate {

/// With O_PATH in `flags`, a link at the last component is opened itself. Async-signal-safe.
[[nodiscard]] inline UniqueFd open_without_links(const char* path, std::uint64_t flags) {
    static std::atomic<bool> refused = false;  // for O_PATH: within a run each such call would wait in vain
    UniqueFd fd;
    if (!refused || (flags & O_PATH) == 0) {
        open_how how{};
        how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
        how.resolve = RESOLVE_NO_SYMLINKS;
        fd.reset(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how)));
        if (fd || errno != ENOSYS) return fd;
        refused = true;
    }
    // Within a run this call does not exist for O_PATH. The kernel's own name of the object then shows
    // whether a link led there, as the resolved path holds none.
    fd.reset(::open(path, static_cast<int>(flags) | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fd;
    char link[32] = "/proc/self/fd/", name[4096];
    *std::to_chars(link + 14, link + sizeof link - 1, fd.get()).ptr = '\0';
    const ssize_t length = ::readlink(link, name, sizeof name);
    const std::string_view wanted(path);
    if (length > 0 && std::string_view(name, static_cast<std::size_t>(length)) == wanted) return fd;
    errno = ELOOP;
    return {};
}

}  // namespace callgate
