// Opens a path that was resolved before (openat2(2), RESOLVE_NO_SYMLINKS).
//
// An attacker may put a symbolic link at any component after the path was resolved. The open then fails with
// ELOOP, and leads nowhere else.
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/unique_fd.hpp"

namespace callgate {

/// With O_PATH in `flags`, a link at the last component is opened itself. Async-signal-safe.
[[nodiscard]] inline UniqueFd open_without_links(const char* path, std::uint64_t flags) {
    open_how how{};
    how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_NO_SYMLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how)));
}

}  // namespace callgate
