// A cache of the callers' identities.
//
// A record names process, parent, start time and executable; reading them anew costs more than the rest of a
// call. Start time and parent are read once for each thread. The executable is read each time, through a
// handle on /proc/TID that dies with the thread. So a reused number is noticed, and an exec too. One cache
// belongs to one worker thread. All caches together keep a bounded number of handles: many callers can start
// many workers, and without free descriptors calls are denied.
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
    /// Bound for all caches of the process together.
    static constexpr int max_handles = 128;

    CallerCache() = default;
    CallerCache(const CallerCache&) = delete;
    CallerCache& operator=(const CallerCache&) = delete;
    ~CallerCache() { clear(); }

    /// The identity of `thread`, and its executable's path in `executable` (empty if it cannot be read).
    [[nodiscard]] Identity look_up(pid_t thread, std::string& executable);
    /// Whether the thread last looked up under this number has another root, user or mount namespace than we:
    /// its paths then mean something else. Determined once, because the filter lets no thread change them,
    /// unless the run keeps CAP_SYS_CHROOT.
    [[nodiscard]] bool elsewhere(pid_t thread) const;

    /// Roots can change from now on. Before any look-up.
    static void expect_other_roots() { roots_change = true; }
    [[nodiscard]] static bool other_roots_expected() { return roots_change.load(std::memory_order_relaxed); }

    /// Like kernel::descriptor_copy, by a cached handle on the thread. If the thread's number was reused, the
    /// handle gives ESRCH: it never stands for another thread.
    [[nodiscard]] Result<UniqueFd> descriptor_copy(pid_t thread, int number);

    /// Closes all handles: for a worker that will be idle for a while.
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
    static inline std::atomic<bool> roots_change{false};

    void keep(Entry& entry, pid_t thread);
    [[nodiscard]] static bool may_keep();
    static void drop(UniqueFd& handle);

    std::array<Entry, size> entries_;
    std::array<Taken, 16> taken_;
};

}  // namespace callgate::kernel
