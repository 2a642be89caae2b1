#include "base/process/open_files.hpp"

#include <linux/close_range.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

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

/// The first range is the highest: only what lies beneath it is copied.
bool keep_own_descriptors(std::vector<int> kept) {
    std::ranges::sort(kept, std::greater());
    unsigned last = ~0U;
    for (const int one : kept) {
        if (one < 0) break;
        const auto number = static_cast<unsigned>(one);
        if (number < last && ::close_range(number + 1, last, CLOSE_RANGE_UNSHARE) != 0) return false;
        if (number == 0) return true;
        last = number - 1;
    }
    return ::close_range(0, last, CLOSE_RANGE_UNSHARE) == 0;
}

}  // namespace callgate
