// Switches that leave single checks out, in a build for tests alone. A test of a denial proves something only
// if it fails once the check is gone.
//
// In every other build there is nothing to switch. `check_enabled` is true at compile time, and the program
// contains no switch name and no variable. Only sources ask, never headers: the build with
// CALLGATE_TEST_SWITCHES compiles those that ask anew, and takes the others from the program. It reads both
// variables before main, and takes them out of the environment, so that no command inherits them. A user who
// may set the environment of that build decides what it checks: it is never installed.
//
//   CALLGATE_TEST_SWITCH_OFF=NAME[,NAME...]   the checks that are left out
//   CALLGATE_TEST_LANDLOCK_ABI=N              an older kernel's Landlock: lowers the ABI, never raises it
#pragma once

#include <optional>
#include <string_view>

namespace callgate {

#ifdef CALLGATE_TEST_SWITCHES

inline constexpr bool test_switches = true;
/// Whether the check of this name is made. The name is a system call's own or that of another check. Any
/// thread may call it, also between fork and exec: it does not allocate.
[[nodiscard]] bool check_enabled(std::string_view check);
/// The highest Landlock ABI that may be assumed, if one is injected.
[[nodiscard]] std::optional<int> injected_landlock_abi();

#else

inline constexpr bool test_switches = false;
[[nodiscard]] constexpr bool check_enabled(std::string_view) { return true; }
[[nodiscard]] constexpr std::optional<int> injected_landlock_abi() { return std::nullopt; }

#endif

}  // namespace callgate
