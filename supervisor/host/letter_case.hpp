// Whether a directory takes names that differ only in the case of letters for one name.
//
// Rules speak of names as they are written. There `.ENV` opens the file that a rule closes as `.env`, and
// other pairs than letters of ASCII may be one name too. So callgate does not open such a place to a run.
//
// An attacker may have filled the directory in an earlier run. Two names of one file (a hard link) prove
// nothing, and a directory has one name.
#pragma once

#include <string>

namespace callgate {

/// True if the flag of ext4, f2fs and tmpfs says so (FS_CASEFOLD_FL). Also true if an entry, or the directory
/// itself, is found by a name whose letters have the other case. False where nothing tells: a root of a file
/// system that is empty, or a path that does not exist or may not be listed. Follows no link. Any thread.
/// See ioctl_iflags(2).
[[nodiscard]] bool ignores_letter_case(const std::string& directory);

}  // namespace callgate
