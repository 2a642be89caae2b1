// A clock that a test moves by hand.
#pragma once

#include <cstdint>

namespace callgate::fakes {

struct HandClock {
    static constexpr std::int64_t second = 1'000'000'000;
    std::int64_t now_ns = second;
};

}  // namespace callgate::fakes
