// Writing records to a descriptor that somebody else reads: a pipe, a socket, a terminal (`--audit fd:N`).
//
// A reader that is slow holds the run up; nothing is dropped. One that is gone makes the write fail, and what
// cannot be recorded is denied. The open file description may be shared with others, so its flags are left as
// they are.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace callgate::audit {

enum class DescriptorKind : std::uint8_t { file, socket, other };

/// As write(2), but of what can be written without waiting for a reader; EAGAIN where that is nothing. Raises
/// no signal on a socket. As long as nobody else writes to a pipe it does not block there either, whatever
/// its flags.
[[nodiscard]] ssize_t write_some(int fd, DescriptorKind kind, const char* data, std::size_t size);

/// Waits a while for more room. False: the time `until` (CLOCK_MONOTONIC, nanoseconds; 0: none), which may be
/// set meanwhile, has passed.
[[nodiscard]] bool wait_for_reader(int fd, const std::atomic<std::int64_t>& until);

}  // namespace callgate::audit
