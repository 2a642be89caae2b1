// Signals that an event loop can read.
#pragma once

#include <span>

namespace callgate {

/// A signalfd(2) for these signals, non-blocking; the caller closes it. The calling thread, and the threads
/// that it makes later, then block the signals. Throws std::system_error.
[[nodiscard]] int open_signals(std::span<const int> numbers);

}  // namespace callgate
