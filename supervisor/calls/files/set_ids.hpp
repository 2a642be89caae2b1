// Set-user-id and set-group-id bits: a run makes them on directories alone.
//
// A person who executes such a file later acts as its owner, outside of the run. Without --keep-capabilities
// callgate leaves these bits out of the mode, and the record of the call says so. An attacker controls the
// mode: it lies in a register, or in memory for openat2, and is copied once. The filter notifies every call
// whose mode holds such a bit, and each openat2 (enforce/filter_spec.cpp). Such a call is never continued:
// the kernel would use the mode that the target gave. Directories keep the bits, which hand on a group there.
// The kind is the pinned object's for chmod, and the call's own for what is made.
#pragma once

#include <sys/stat.h>

#include <string_view>

#include "supervisor/calls/files/needs.hpp"

namespace callgate::calls {

inline constexpr mode_t set_id_bits = S_ISUID | S_ISGID;

/// Stands in the record of a call whose mode lost them.
inline constexpr std::string_view set_ids_left_out = "set-user-id and set-group-id bits were left out";

/// Whether bits of `mode` are left out on anything but a directory.
[[nodiscard]] inline bool leaves_set_ids_out(const FileCall& context, mode_t mode) {
    return context.files.plan.set_ids_left_out && (mode & set_id_bits) != 0;
}

/// The mode for anything but a directory.
[[nodiscard]] inline mode_t permitted_mode(const FileCall& context, mode_t mode) {
    return leaves_set_ids_out(context, mode) ? mode & ~set_id_bits : mode;
}

}  // namespace callgate::calls
