// Who the callers are, remembered between their calls.
//
// A record names process, parent, start time and executable; reading them anew costs more than the rest of a
// call. Start time and parent are read once for each thread; the executable is read each time, through a
// handle on /proc/TID that dies with the thread: so a number that was reused is noticed, and an exec too. One
// cache belongs to one receiving thread; all together keep a bounded number of handles, because a crowd of
// callers can make many receivers, and descriptors that are used up deny calls.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <string>

#include "base/unique_fd.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::kernel {

class CallerCache {
public:
    /// Of all caches of the process.
    static constexpr int max_handles = 128;

    CallerCache() = default;
    CallerCache(const CallerCache&) = delete;
    CallerCache& operator=(const CallerCache&) = delete;
    ~CallerCache() { clear(); }

    /// The identity of `thread`, and its executable's path in `executable` (empty where it cannot be read).
    [[nodiscard]] Identity look_up(pid_t thread, std::string& executable);
    /// Whether the thread that was looked up last under this number has another root, user or mount namespace
    /// than we: its paths mean something else. Looked at once, because the filter lets nobody change them.
    [[nodiscard]] bool elsewhere(pid_t thread) const;

    /// kernel::descriptor_copy, by a handle on the thread that is kept. Of a thread whose number was given
    /// anew the handle says ESRCH: it never stands for another.
    [[nodiscard]] Result<UniqueFd> descriptor_copy(pid_t thread, int number);

    /// Lets go of all handles: of a receiver that will not receive for a while.
    void clear();

private:
    struct Entry {
        pid_t thread = 0;
        UniqueFd directory;  // O_PATH on /proc/TID
        Identity identity;
        bool elsewhere = false;
    };
    struct Taken {
        pid_t thread = 0;
        UniqueFd handle;
    };
    static constexpr std::size_t size = 64;
    static inline std::atomic<int> all_handles{0};

    void keep(Entry& entry, pid_t thread);
    [[nodiscard]] static bool may_keep();
    static void drop(UniqueFd& handle);

    std::array<Entry, size> entries_;
    std::array<Taken, 16> taken_;
};

}  // namespace callgate::kernel
