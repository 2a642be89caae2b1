// What callgate inherited of signals: the command starts with exactly this, as if it had been started
// directly.
#pragma once

#include <csignal>

namespace callgate {

/// Owns nothing. Take it before anything changes a disposition or the mask.
struct SignalState {
    sigset_t mask{};
    sigset_t ignored{};

    [[nodiscard]] static SignalState current();
    /// Makes it the calling process's again: ignored stay ignored, all others default. Async-signal-safe.
    void restore_dispositions() const;
    void restore_mask() const;
};

}  // namespace callgate
