// Short names for the filter's tests of scalar arguments.
//
// int arguments are compared by their low word alone: the kernel ignores the high one, so an attacker may
// fill it (docs/dev/kernel-facts.md 40).
#pragma once

#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {

constexpr ArgumentTest equals(std::uint8_t argument, std::uint64_t value, std::uint64_t mask = 0xffffffff) {
    return {argument, ArgumentTest::Compare::masked_equal, true, mask, value};
}
constexpr ArgumentTest differs(std::uint8_t argument, std::uint64_t value, std::uint64_t mask = 0xffffffff) {
    return {argument, ArgumentTest::Compare::masked_not_equal, true, mask, value};
}
/// True if any bit of `mask` is set.
constexpr ArgumentTest has(std::uint8_t argument, std::uint64_t mask) { return differs(argument, 0, mask); }
/// True for a pointer that is not null (all 64 bits).
constexpr ArgumentTest given(std::uint8_t argument) {
    return {argument, ArgumentTest::Compare::non_zero, false, ~0ULL, 0};
}
constexpr ArgumentTest not_zero(std::uint8_t argument) {
    return {argument, ArgumentTest::Compare::non_zero, true, 0xffffffff, 0};
}

}  // namespace callgate::enforce
