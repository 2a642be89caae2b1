// Says where a path lies, by its text alone.
#pragma once

#include <string_view>

namespace callgate {

/// Whether `path` is `directory` or lies beneath it. Both are absolute, without a slash at the end.
[[nodiscard]] inline bool at_or_beneath(std::string_view path, std::string_view directory) {
    if (directory == "/") return path.starts_with('/');
    if (!path.starts_with(directory)) return false;
    return path.size() == directory.size() || path[directory.size()] == '/';
}

}  // namespace callgate
