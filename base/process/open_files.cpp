#include "base/process/open_files.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace callgate {

void raise_open_files() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // on failure fewer calls may block
}

int blocked_calls_for_open_files() {
    // A call holds its start directory, the object, the opened file and the caller itself. A socket's call
    // holds as many.
    constexpr rlim_t of_a_call = 4;
    constexpr rlim_t all_else = 64;
    constexpr rlim_t most = 1 << 20;
    rlimit now{};
    if (::getrlimit(RLIMIT_NOFILE, &now) != 0) return 1;
    return static_cast<int>((std::clamp(now.rlim_cur, all_else, most) - all_else) / of_a_call);
}

}  // namespace callgate
