// Writes records to a descriptor that another process reads: a pipe, a socket, a terminal (`--audit fd:N`).
//
// A slow reader delays the run; nothing is dropped. If the reader is gone, the write fails. A call that
// cannot be recorded is denied. The open file description may be shared with others, so its flags are left as
// they are, but for O_APPEND on a file.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace callgate::audit {

enum class DescriptorKind : std::uint8_t { file, socket, other };

/// Makes a descriptor that callgate was given ready for records. Errors: EBADF if it cannot be written to,
/// and those of fstat(2).
[[nodiscard]] Result<DescriptorKind> prepare_descriptor(int fd);

/// Like write(2), but writes only what it can write without waiting for a reader. Fails with EAGAIN if that
/// is nothing. Raises no signal on a socket. It does not block on a pipe either, whatever the flags, as long
/// as nobody else writes to the pipe.
[[nodiscard]] ssize_t write_some(int fd, DescriptorKind kind, const char* data, std::size_t size);

/// Waits a while for more room. Returns false if the time `until` has passed. `until` is CLOCK_MONOTONIC in
/// nanoseconds (0: no limit) and may be set meanwhile.
[[nodiscard]] bool wait_for_reader(int fd, const std::atomic<std::int64_t>& until);

}  // namespace callgate::audit
