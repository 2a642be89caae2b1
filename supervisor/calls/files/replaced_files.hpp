// Files that Landlock may no longer know by their names.
//
// A grant on a single file belongs to the inode that had the name at the start. If another program has put a
// new file there since, the kernel would refuse what the rules allow, without a record. So only a file that
// is surely the old one is left to the kernel. A file that got its name, or was changed, during the run is
// opened here.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "base/test_switch.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/resolve.hpp"

namespace callgate::calls {

/// The start by the clock that file systems take their times from.
inline const timespec program_start = [] {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}();

/// Whether the grant that allows `operations` on a file may be on another inode by now.
inline bool may_have_been_replaced(const rules::StaticGrants& grants, rules::OperationSet operations,
                                   const Object& object) {
    const timespec& changed = object.status.st_ctim;
    const bool since = changed.tv_sec != program_start.tv_sec ? changed.tv_sec > program_start.tv_sec
                                                              : changed.tv_nsec >= program_start.tv_nsec;
    if (!since || !S_ISREG(object.status.st_mode) || !check_enabled("replaced-files")) return false;
    // A grant on a directory above holds whatever the file is.
    const std::size_t slash = object.path.rfind('/');
    return !grants.allow(operations,
                         std::string_view(object.path).substr(0, std::max<std::size_t>(slash, 1)));
}

}  // namespace callgate::calls
