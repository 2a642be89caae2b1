// Files that Landlock may no longer know by their names.
//
// A grant on a single file belongs to the inode that had the name at the start. Where another program has put
// a new file there since, the kernel would refuse what the rules allow, and nobody would have it on record.
// So only what is surely the old one is left to the kernel: a file that got its name, or was changed at all,
// during the run is acted on here.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "base/test_switch.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/decide/supervision.hpp"

namespace callgate::calls {

/// By the clock that file systems take their times from.
inline const timespec program_start = [] {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}();

/// Of a file that a grant allows `operations` on: whether that grant may be on another inode by now.
inline bool may_have_been_replaced(const Supervision& run, rules::OperationSet operations,
                                   const Object& object) {
    const timespec& changed = object.status.st_ctim;
    const bool since = changed.tv_sec != program_start.tv_sec ? changed.tv_sec > program_start.tv_sec
                                                              : changed.tv_nsec >= program_start.tv_nsec;
    if (!since || !S_ISREG(object.status.st_mode) || !check_enabled("replaced-files")) return false;
    // A grant on a directory above holds whatever the file is.
    const std::size_t slash = object.path.rfind('/');
    return !run.grants.allow(operations,
                             std::string_view(object.path).substr(0, std::max<std::size_t>(slash, 1)));
}

}  // namespace callgate::calls
