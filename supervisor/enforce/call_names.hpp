// Names and numbers of system calls on the architectures that callgate runs on.
//
// libseccomp knows most of them; newer_calls.hpp has the rest. Both become one table when callgate is built
// (cmake/embed_calls.cpp), so that numbers are constants. Pure: no kernel call.
#pragma once

#include <call_numbers.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "supervisor/enforce/newer_calls.hpp"

namespace callgate::enforce {

enum class Architecture : std::uint8_t { x86_64, aarch64 };

#if defined(__x86_64__)
inline constexpr Architecture native_architecture = Architecture::x86_64;
#elif defined(__aarch64__)
inline constexpr Architecture native_architecture = Architecture::aarch64;
#else
#error "callgate runs on x86_64 and aarch64"
#endif

/// Stands for the missing number of a call that this architecture lacks.
inline constexpr std::uint32_t no_number = 0xffffffff;

/// Private: all calls of one architecture.
struct KnownCalls {
    std::span<const KnownCall> calls;
    const char* names;

    [[nodiscard]] static constexpr KnownCalls of(Architecture architecture) {
        if (architecture == Architecture::x86_64) return {calls_x86_64, names_x86_64};
        return {calls_aarch64, names_aarch64};
    }
    [[nodiscard]] constexpr std::string_view name(const KnownCall& call) const {
        return {names + call.begin, call.length};
    }
};

/// The number of a call, or `no_number` for an unknown call or one of another architecture.
[[nodiscard]] constexpr std::uint32_t call_number(std::string_view name,
                                                  Architecture on = native_architecture) {
    const KnownCalls known = KnownCalls::of(on);
    std::size_t first = 0, last = known.calls.size();
    while (first < last) {
        const std::size_t middle = first + (last - first) / 2;
        const int order = name.compare(known.name(known.calls[middle]));
        if (order == 0) return known.calls[middle].number;
        if (order < 0)
            last = middle;
        else
            first = middle + 1;
    }
    return no_number;
}

/// The name of a number; empty if unknown.
[[nodiscard]] std::string call_name(std::uint32_t number, Architecture on = native_architecture);

/// Numbers from `first` to `last` that belong to no call. A kernel that assigns one of them is newer than
/// this table.
struct NumberRange {
    std::uint32_t first, last;
};
[[nodiscard]] std::span<const NumberRange> unassigned_numbers(Architecture on = native_architecture);

}  // namespace callgate::enforce
