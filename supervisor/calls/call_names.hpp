// Names and numbers of system calls on the architectures that callgate runs on.
//
// libseccomp knows most of them; those that are newer than it stand here, with numbers that are the same on
// all 64-bit architectures. Pure: no kernel call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace callgate::calls {

enum class Architecture : std::uint8_t { x86_64, aarch64 };

#if defined(__x86_64__)
inline constexpr Architecture native_architecture = Architecture::x86_64;
#elif defined(__aarch64__)
inline constexpr Architecture native_architecture = Architecture::aarch64;
#else
#error "callgate runs on x86_64 and aarch64"
#endif

/// The newest number that is known (file_setattr, Linux 6.17): what is above it answers ENOSYS.
inline constexpr std::uint32_t newest_call = 469;

/// In place of a number: this architecture has no such call.
inline constexpr std::uint32_t no_number = 0xffffffff;

/// The number of a call, or `no_number`: unknown, or a call of another architecture.
[[nodiscard]] std::uint32_t call_number(std::string_view name, Architecture on = native_architecture);

/// The name of a number; empty where none is known.
[[nodiscard]] std::string call_name(std::uint32_t number, Architecture on = native_architecture);

/// Numbers from `first` to `last` that no call has: a kernel that gives one of them away is newer than this
/// table.
struct NumberRange {
    std::uint32_t first, last;
};
[[nodiscard]] std::span<const NumberRange> unassigned_numbers(Architecture on = native_architecture);

}  // namespace callgate::calls
