// The content of a settings file that is open.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/read_whole.hpp"
#include "supervisor/calls/files/settings_formats.hpp"

namespace callgate::calls {

/// The content; nothing if it cannot be read or is larger than a settings file.
[[nodiscard]] inline std::optional<std::string> read_settings(int file) {
    auto content = read_whole(file, max_settings);
    if (!content || content->size() > max_settings) return std::nullopt;
    return std::move(*content);
}

}  // namespace callgate::calls
