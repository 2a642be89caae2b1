// The places of program, stack, arguments and environment in a process's memory.
//
// Each execve(2) sets these places at random, and a fork copies them. They change in no other way, as the
// filter refuses PR_SET_MM. So they stand for a memory and all its copies. A process without random places
// (personality(2)) shares them with others.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>

namespace callgate::kernel {

using MemoryPlaces = std::array<std::uint64_t, 10>;

/// Returns nothing if the kernel does not show them, or if there is no such process.
[[nodiscard]] std::optional<MemoryPlaces> memory_places(pid_t process);

}  // namespace callgate::kernel
