// The user as whom the calling thread reaches files.
#pragma once

#include <sys/fsuid.h>
#include <sys/types.h>

namespace callgate {

/// Returns the calling thread's fsuid. setfsuid(2) with an impossible user changes nothing.
[[nodiscard]] inline uid_t fs_user() { return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))); }

}  // namespace callgate
