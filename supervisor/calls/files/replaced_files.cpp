#include "supervisor/calls/files/replaced_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "base/test_switch.hpp"

namespace callgate::calls {

namespace {

/// The start by the clock that file systems take their times from.
const timespec program_start = [] {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}();

}  // namespace

bool may_have_been_replaced(const rules::StaticGrants& grants, rules::OperationSet operations,
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
