#include "supervisor/calls/name_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/clock.hpp"
#include "base/test_switch.hpp"

namespace callgate::calls {

namespace {

// Two bytes of the file. Who wants to be alone takes the turn first, so that nobody joins any more.
constexpr int turn = 0, names = 1;
constexpr std::int64_t max_joined_ns = 5'000'000;

}  // namespace

/// Looks again and again, because fcntl(2) waits without a limit.
class NameLock::Wait {
public:
    explicit Wait(std::chrono::nanoseconds patience) : end_(monotonic_ns() + patience.count()) {}
    void once() {
        if (monotonic_ns() > end_) throw NamesHeld();
        std::this_thread::sleep_for(pause_);
        pause_ = std::min(pause_ * 2, longest);
    }

private:
    static constexpr std::chrono::microseconds longest{1000};
    const std::int64_t end_;
    std::chrono::microseconds pause_{10};
};

/// Returns false if another run has a lock that excludes this one.
bool NameLock::take(short kind, int first, int count) const {
    struct flock wanted {};
    wanted.l_type = kind;
    wanted.l_whence = SEEK_SET;
    wanted.l_start = first;
    wanted.l_len = count;
    if (::fcntl(file_, F_OFD_SETLK, &wanted) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    throw std::system_error(errno, std::generic_category(), "cannot lock the names");
}

void NameLock::give_back(int first, int count) const { static_cast<void>(take(F_UNLCK, first, count)); }

/// Shares the lock with other runs; the threads of this one share its part.
void NameLock::join() {
    if (file_ < 0 || !check_enabled("names-lock-of-runs")) return;
    for (Wait wait(patience_);; wait.once()) {
        const std::lock_guard lock(mutex_);
        const std::int64_t now = monotonic_ns();
        if (sharing_ == 0 || now >= joined_until_ns_) {
            // The turn of a run that has its part already is free, unless another one waits.
            if (!take(F_RDLCK, turn, sharing_ == 0 ? names + 1 : 1)) continue;
            give_back(turn, 1);
            joined_until_ns_ = now + max_joined_ns;
        }
        ++sharing_;
        return;
    }
}

void NameLock::leave() {
    if (file_ < 0 || !check_enabled("names-lock-of-runs")) return;
    const std::lock_guard lock(mutex_);
    if (--sharing_ == 0) give_back(turn, names + 1);
}

void NameLock::lock_shared() {
    std::shared_lock in_run(in_run_);
    join();
    in_run.release();
}

void NameLock::unlock_shared() {
    leave();
    in_run_.unlock_shared();
}

void NameLock::lock() {
    std::unique_lock in_run(in_run_);
    join();
    in_run.release();
}

void NameLock::unlock() {
    leave();
    in_run_.unlock();
}

/// Whether a run has been alone just now. Then all have as much time for themselves: a run that is alone
/// again and again keeps nobody out. The file holds the time at which that ends.
bool NameLock::others_turn() const {
    std::int64_t until_ns = 0;
    if (::pread(file_, &until_ns, sizeof until_ns, 0) != sizeof until_ns) return false;
    const std::int64_t left_ns = until_ns - monotonic_ns();
    // More is left of another boot.
    return left_ns > 0 && left_ns < std::chrono::nanoseconds(patience_).count() / 2;
}

void NameLock::leave_to_others(std::int64_t held_ns) const {
    const std::int64_t until_ns = monotonic_ns() + held_ns;
    // A full disk keeps nobody out for long: who waits looks often.
    static_cast<void>(::pwrite(file_, &until_ns, sizeof until_ns, 0));
}

/// False: it was another run's turn meanwhile.
bool NameLock::take_of_runs(Wait& wait) const {
    try {
        while (!take(F_WRLCK, turn, 1)) wait.once();
        while (!take(F_WRLCK, names, 1)) wait.once();
    } catch (...) {
        give_back(turn, names + 1);
        throw;
    }
    if (!others_turn()) return true;
    give_back(turn, names + 1);
    return false;
}

void NameLock::lock_of_runs() {
    const bool meets = file_ >= 0 && check_enabled("names-lock-of-runs");
    for (Wait wait(patience_);; wait.once()) {
        if (meets && others_turn()) continue;
        std::unique_lock in_run(in_run_);
        if (meets && !take_of_runs(wait)) continue;
        alone_since_ns_ = monotonic_ns();
        in_run.release();
        return;
    }
}

void NameLock::unlock_of_runs() {
    if (file_ >= 0 && check_enabled("names-lock-of-runs")) {
        leave_to_others(monotonic_ns() - alone_since_ns_);
        give_back(turn, names + 1);
    }
    in_run_.unlock();
}

}  // namespace callgate::calls
