// Signals as something to read: for an event loop.
#pragma once

#include <span>

namespace callgate {

/// A signalfd(2) for these, which the calling thread, and those that it makes later, then block;
/// non-blocking, the caller's to close. Throws std::system_error.
[[nodiscard]] int open_signals(std::span<const int> numbers);

}  // namespace callgate
