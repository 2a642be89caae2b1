// The content of a settings file that is open.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "supervisor/calls/files/settings_copy.hpp"

namespace callgate::calls {

/// The content; nothing if it cannot be read or is larger than a settings file.
[[nodiscard]] inline std::optional<std::string> read_settings(int file) {
    std::string content(max_settings + 1, '\0');
    std::size_t filled = 0;
    while (filled < content.size()) {
        const ssize_t got = ::read(file, content.data() + filled, content.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        filled += static_cast<std::size_t>(got);
    }
    if (filled > max_settings) return std::nullopt;
    content.resize(filled);
    return content;
}

}  // namespace callgate::calls
