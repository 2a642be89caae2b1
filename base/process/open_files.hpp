// How many files callgate itself may have open while it supervises: as many as it may allow itself.
//
// Each call that blocks holds some descriptors here, and 512 may block at once: more than the 1024 that a
// login shell gives. The command keeps the limit that callgate was given, for its agent is forked before.
#pragma once

namespace callgate {

/// Raises the soft limit of this process to its hard one (getrlimit(2), RLIMIT_NOFILE). After the agent is
/// forked.
void raise_open_files();
/// How many calls may block at once so that the others still find descriptors under the soft limit of now.
[[nodiscard]] int blocked_calls_for_open_files();

}  // namespace callgate
