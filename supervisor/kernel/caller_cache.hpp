// Who the callers are, remembered between their calls.
//
// A record names process, parent, start time and executable; reading them anew costs more than the rest of a
// call. Start time and parent are read once for each thread; the executable is read each time, through a
// handle on /proc/TID that dies with the thread: so a number that was reused is noticed, and an exec too. One
// cache belongs to one receiving thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>

#include "agent/unique_fd.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::kernel {

class CallerCache {
public:
    /// The identity of `thread`, and its executable's path in `executable` (empty where it cannot be read).
    [[nodiscard]] Identity look_up(pid_t thread, std::string& executable);

private:
    struct Entry {
        pid_t thread = 0;
        UniqueFd directory;  // O_PATH on /proc/TID
        Identity identity;
    };
    static constexpr std::size_t size = 64;
    std::array<Entry, size> entries_;
};

}  // namespace callgate::kernel
