// The clock by which callgate waits and measures.
#pragma once

#include <cstdint>
#include <ctime>

namespace callgate {

/// CLOCK_MONOTONIC in nanoseconds.
[[nodiscard]] inline std::int64_t monotonic_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace callgate
