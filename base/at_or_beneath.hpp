// Says where a path lies, by its text alone.
#pragma once

#include <algorithm>
#include <string_view>

namespace callgate {

/// Whether `path` is `directory` or lies beneath it. Both are absolute, without a slash at the end.
[[nodiscard]] inline bool at_or_beneath(std::string_view path, std::string_view directory) {
    if (directory == "/") return path.starts_with('/');
    if (!path.starts_with(directory)) return false;
    return path.size() == directory.size() || path[directory.size()] == '/';
}

/// Whether a directory is one to be offered as a whole: neither `home` ("": not known), nor above it, nor
/// directly beneath the root. All are absolute, without a slash at the end.
[[nodiscard]] inline bool is_small_tree(std::string_view directory, std::string_view home) {
    if (std::count(directory.begin(), directory.end(), '/') < 2) return false;
    return home.empty() || !at_or_beneath(home, directory);
}

}  // namespace callgate
