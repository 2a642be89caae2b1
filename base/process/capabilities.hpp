// Capabilities of the calling thread, by raw system calls: no library, no allocation, async-signal-safe.
#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace callgate {

/// Bit N stands for capability N of capabilities(7).
using CapabilitySet = std::uint64_t;
[[nodiscard]] constexpr CapabilitySet capability(int number) { return CapabilitySet{1} << number; }
/// All of them, whichever the kernel knows.
inline constexpr CapabilitySet all_capabilities = ~CapabilitySet{0};

[[nodiscard]] CapabilitySet permitted_capabilities();

/// Sets what the calling thread is permitted and what of it is effective. Inheritable ones stay. False if the
/// kernel refuses.
[[nodiscard]] bool hold_capabilities(CapabilitySet permitted, CapabilitySet effective);

/// Takes every capability but `kept` from the calling thread, and from what it executes: effective,
/// permitted, inheritable, ambient and, with CAP_SETPCAP, bounding. Idempotent.
[[nodiscard]] Result<void> keep_capabilities(CapabilitySet kept);

/// Takes the same but for the bounding set, and keeps only `effective` of it in use: for processes of ours.
[[nodiscard]] Result<void> hold_only(CapabilitySet kept, CapabilitySet effective);

/// The first ends processes of other users. The second removes files and objects that those leave.
extern const CapabilitySet for_ending, for_removing;

/// Makes all that is permitted effective: for an end at which no other process is left.
void use_permitted_capabilities();

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
