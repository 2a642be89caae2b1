// Sets how many files callgate itself may have open while it supervises: as many as its hard limit allows.
//
// Each call that blocks holds some descriptors here, and 512 may block at once. That takes more than the 1024
// descriptors that a login shell gives. The command keeps the limit that callgate was given, because its
// agent is forked before.
#pragma once

#include <vector>

namespace callgate {

/// Raises the soft limit of this process to its hard one (getrlimit(2), RLIMIT_NOFILE). Call it after the
/// agent is forked.
void raise_open_files();
/// How many calls may block at once so that the others still find descriptors under the current soft limit.
[[nodiscard]] int blocked_calls_for_open_files();

/// Gives the calling thread descriptors of its own: these, under their numbers (-1 counts for none). From
/// then on it finds some whatever other threads have open. False: nothing has changed (close_range(2)).
bool keep_own_descriptors(std::vector<int> kept);

}  // namespace callgate
