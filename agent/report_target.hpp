// The target of a run's report. The supervisor writes it; if the supervisor is lost, the guardian does.
//
// A regular file is replaced, so a reader sees the old contents or the whole report. Until then no part of
// the report exists: a target that may write in its directory cannot touch it. The directory is held open
// from the start, so a name that the target puts in the way leads nowhere else. Other targets are written in
// place: a pipe, a terminal, a file of another user or in a directory of another user.
//
// An attacker controls the name: an earlier run, or another user in /tmp, may have put a link there. It is
// never followed. The user's own link is replaced, and any other is refused.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace callgate::agent {

struct ReportTarget {
    UniqueFd descriptor;  // the open target; its directory if a file is replaced
    std::string name;     // of the file to replace; "": written in place
    mode_t mode = 0666;   // of that file; a new file also obeys the umask
    bool existed = false;

    [[nodiscard]] bool wanted() const { return descriptor.valid(); }
    [[nodiscard]] bool replaces() const { return !name.empty(); }
};

/// Opens the place that `path` (absolute) names. Creates nothing if the file can be replaced later; otherwise
/// opens and truncates it. On failure the descriptor is invalid, with errno of open(2) or stat(2); ELOOP: a
/// link that is not replaced. EINVAL: neither a file, a FIFO nor a character device.
[[nodiscard]] ReportTarget open_report(const std::string& path);

/// Writes the whole text; a file by way of a new one beside it, whose name nobody can foretell. On failure
/// returns false with errno; a file that would be replaced is then left as it was.
bool write_report(const ReportTarget& place, std::string_view text);

}  // namespace callgate::agent
