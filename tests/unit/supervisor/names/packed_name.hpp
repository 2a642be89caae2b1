// Names as DNS messages hold them (RFC 1035, 4.1.2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace callgate::names::tests {

/// The labels of `name`, each behind its length, and a zero. It is also given where a label is too long.
inline std::vector<std::uint8_t> packed(std::string_view name) {
    std::vector<std::uint8_t> out;
    while (!name.empty()) {
        const std::size_t end = std::min(name.find('.'), name.size());
        out.push_back(static_cast<std::uint8_t>(end));
        out.insert(out.end(), name.begin(), name.begin() + static_cast<std::ptrdiff_t>(end));
        name.remove_prefix(std::min(end + 1, name.size()));
    }
    out.push_back(0);
    return out;
}

}  // namespace callgate::names::tests
