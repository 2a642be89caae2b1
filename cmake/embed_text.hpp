// Files as string literals of a generated C++ source.
#pragma once

#include <algorithm>
#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace embed {

inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw std::runtime_error(path + ": cannot be read");
    return text.str();
}

/// A string literal that holds the bytes as they are, cut into pieces that every compiler takes.
inline void put_string(std::ostream& out, std::string_view text) {
    constexpr std::size_t longest = 8000;
    constexpr std::string_view delimiter = ")embedded\"";
    if (text.find(delimiter) != std::string_view::npos)
        throw std::runtime_error("a text holds the delimiter of the generated strings");
    do {
        out << "\n    R\"embedded(" << text.substr(0, longest) << delimiter;
        text.remove_prefix(std::min(longest, text.size()));
    } while (!text.empty());
}

}  // namespace embed
