// A range of port numbers.
#pragma once

#include <cstdint>

namespace callgate {

/// Both ends belong to the range. It is empty if `last` is below `first`.
struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
    [[nodiscard]] bool contains(std::uint16_t port) const { return first <= port && port <= last; }
    bool operator==(const PortRange&) const = default;
};

}  // namespace callgate
