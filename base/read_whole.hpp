// read(2) until everything is read.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace callgate {

/// Returns everything up to the end, or a little more than `max_size` where there is more. Errors: errno of
/// read(2).
[[nodiscard]] inline Result<std::string> read_whole(int fd, std::size_t max_size) {
    std::string text;
    std::array<char, 65536> bytes;
    while (text.size() <= max_size) {
        const ssize_t got = ::read(fd, bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno_code();
        if (got == 0) break;
        text.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return text;
}

}  // namespace callgate
