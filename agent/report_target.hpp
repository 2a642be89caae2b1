// Where a run's report is written: by the supervisor or, where that is lost, by the guardian.
//
// A regular file is replaced: who reads it sees what was there, or the whole report. Until then nothing of it
// exists, so a target that may write in its directory cannot touch it; the directory is held from the start,
// so a name that the target puts in its way leads nowhere else. What cannot be replaced (a pipe, a terminal,
// a file of somebody else's or in such a directory) is written in place.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace callgate::agent {

struct ReportTarget {
    UniqueFd descriptor;  // what is written to; the directory, where a file is replaced
    std::string name;     // of the file that is replaced; "": none is
    mode_t mode = 0666;   // of that file; where there was none the umask takes from it
    bool existed = false;

    [[nodiscard]] bool wanted() const { return descriptor.valid(); }
    [[nodiscard]] bool replaces() const { return !name.empty(); }
};

/// The place that `path` names, links followed: nothing is made where the file can be replaced, else it is
/// opened and emptied. Its descriptor is invalid, with errno of open(2) or stat(2), where nothing can be
/// written.
[[nodiscard]] ReportTarget open_report(const std::string& path);

/// Writes the whole text; false, with errno, where that failed (nothing new is left then where a file is
/// replaced).
bool write_report(const ReportTarget& place, std::string_view text);

}  // namespace callgate::agent
