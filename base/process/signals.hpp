// The signal state that callgate inherited. The command starts with exactly this state, as if it had been
// started directly.
#pragma once

#include <csignal>

namespace callgate {

/// It owns nothing. Take it before anything changes a disposition or the mask.
struct SignalState {
    sigset_t mask{};
    sigset_t ignored{};  // of the signals that callgate itself ignores or catches

    [[nodiscard]] static SignalState current();
    /// Restores it in the calling process, for the program that it executes next. Async-signal-safe.
    void restore_dispositions() const;
    void restore_mask() const;
};

}  // namespace callgate
