// Capabilities of the calling thread, by raw system calls: no library, no allocation, async-signal-safe.
#pragma once

#include "base/result.hpp"

namespace callgate {

/// Drops every capability of the calling thread: effective, permitted, inheritable and ambient. With
/// CAP_SETPCAP it also empties the bounding set and locks the securebit NOROOT. Idempotent.
[[nodiscard]] Result<void> drop_capabilities();

/// Drops the same except for the bounding set and the securebits, which only execve(2) uses. It is for
/// processes of ours that execute nothing. With NO_NEW_PRIVS, execve would give nothing back either. It takes
/// a tenth of the system calls.
[[nodiscard]] Result<void> drop_held_capabilities();

/// Drops the same, but CAP_DAC_OVERRIDE stays permitted if it is held (capabilities(7)). The thread uses it
/// only while an OverrideInUse lives.
[[nodiscard]] Result<void> set_override_aside();

/// While it lives, the calling thread uses CAP_DAC_OVERRIDE if that was set aside. Otherwise it changes
/// nothing.
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
