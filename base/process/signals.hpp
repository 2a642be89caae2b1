// The signal state that callgate inherited. The command starts with exactly this state, as if it had been
// started directly.
#pragma once

#include <csignal>

namespace callgate {

/// It owns nothing. Take it before anything changes a disposition or the mask.
struct SignalState {
    sigset_t mask{};
    sigset_t ignored{};

    [[nodiscard]] static SignalState current();
    /// Restores it in the calling process: ignored signals stay ignored, all others get the default.
    /// Async-signal-safe.
    void restore_dispositions() const;
    void restore_mask() const;
};

}  // namespace callgate
