// Capabilities of the calling thread, by raw system calls: no library, no allocation, async-signal-safe.
#pragma once

#include "base/result.hpp"

namespace callgate {

/// Drops every capability of the calling thread: effective, permitted, inheritable, ambient; with CAP_SETPCAP
/// also bounding, and securebits NOROOT locked. Idempotent.
[[nodiscard]] Result<void> drop_capabilities();

/// The same but for bounding set and securebits, which only execve(2) looks at: for processes of ours that
/// execute nothing (with NO_NEW_PRIVS execve would give nothing back either). A tenth of the system calls.
[[nodiscard]] Result<void> drop_held_capabilities();

/// The same, but CAP_DAC_OVERRIDE, where it is held, stays permitted (capabilities(7)): nothing that the
/// thread does uses it, but what it does while an OverrideInUse lives.
[[nodiscard]] Result<void> set_override_aside();

/// While it lives, the calling thread uses CAP_DAC_OVERRIDE, if that was set aside; else it changes nothing.
class OverrideInUse {
public:
    OverrideInUse();
    OverrideInUse(const OverrideInUse&) = delete;
    OverrideInUse& operator=(const OverrideInUse&) = delete;
    ~OverrideInUse();

private:
    bool raised_ = false;
};

}  // namespace callgate
