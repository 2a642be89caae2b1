// Switches by which one build, for tests alone, leaves single checks out: a test of a denial proves something
// only where it fails once the check is gone.
//
// In every other build there is nothing to switch: `check_enabled` is true at compile time, no name and no
// variable is in the program. In the build with CALLGATE_TEST_SWITCHES both variables are read and taken out
// of the environment before main, so that no command inherits them. Whoever may set the environment of that
// build decides what it checks: it is never installed.
//
//   CALLGATE_TEST_SWITCH_OFF=NAME[,NAME...]   the checks that are left out
//   CALLGATE_TEST_LANDLOCK_ABI=N              an older kernel's Landlock: lowers the ABI, never raises it
#pragma once

#include <optional>
#include <string_view>

namespace callgate {

#ifdef CALLGATE_TEST_SWITCHES

inline constexpr bool test_switches = true;
/// Whether the check of this name is made: a system call's own name, or that of a check beside. Any thread,
/// and between fork and exec: no allocation.
[[nodiscard]] bool check_enabled(std::string_view check);
/// The Landlock ABI that is to be believed in, at most.
[[nodiscard]] std::optional<int> injected_landlock_abi();

#else

inline constexpr bool test_switches = false;
[[nodiscard]] constexpr bool check_enabled(std::string_view) { return true; }
[[nodiscard]] constexpr std::optional<int> injected_landlock_abi() { return std::nullopt; }

#endif

}  // namespace callgate
