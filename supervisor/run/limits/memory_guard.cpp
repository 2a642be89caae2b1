#include "supervisor/run/limits/memory_guard.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/process/open_files.hpp"
#include "base/test_switch.hpp"
#include "supervisor/run/limits/tree_usage.hpp"

namespace callgate::limits {

namespace {

using namespace std::chrono_literals;

constexpr MemoryGuard::Wait first_look = 2ms, last_look = 1s;
/// A reading that is done sooner is not late.
constexpr MemoryGuard::Wait on_time = 5ms;
/// Processor time that a reading may take while the machine gains more than the tree may.
constexpr MemoryGuard::Wait patience = 50ms;
/// A reading may also wait for a lock of the kernel. Then that many looks are its time, 5 ms apart at least.
constexpr int max_looks = 200;
constexpr MemoryGuard::Wait between_looks = 5ms;
/// The parent of a job stops as soon as it has a processor. This long a look waits for all of them; what is
/// left is stopped by a later look.
constexpr MemoryGuard::Wait for_parents = 2ms, between_first_looks = 1ms;
constexpr int looks_for_parents = 2;

/// Whether it will not come to see what its children do. One that waits for its child of vfork(2), or for a
/// disk, does not stop before that is over.
bool is_away(pid_t pid, MemoryGuard::Clock::time_point until) {
    for (;;) {
        const auto process = read_process(pid);
        if (!process || (process->state != 'R' && process->state != 'S')) return true;
        if (MemoryGuard::Clock::now() >= until) return false;
        std::this_thread::sleep_for(50us);
    }
}

}  // namespace

void MemoryGuard::start(pthread_t reader) {
    if (::pthread_getcpuclockid(reader, &reader_clock_) != 0) reader_clock_ = CLOCK_MONOTONIC;
    thread_ = std::thread([this] {
        if (check_enabled("own-descriptors"))
            keep_own_descriptors({ending_.get(), wanted_.get(), exceeded_by_});
        run();
    });
}

void MemoryGuard::stop() {
    if (!thread_.joinable()) return;
    ::eventfd_write(ending_.get(), 1);
    thread_.join();
}

/// The numbers of the descriptors are free in the copy, and its thread is not there.
void MemoryGuard::start_in_copy(pthread_t reader) {
    static_cast<void>(ending_.release());
    static_cast<void>(wanted_.release());
    ending_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    wanted_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (::pthread_getcpuclockid(reader, &reader_clock_) != 0) reader_clock_ = CLOCK_MONOTONIC;
    try {
        std::thread([this] { run(); }).detach();
    } catch (const std::system_error&) {  // readings go on without it
    }
}

void MemoryGuard::reading_begins() {
    begun_ = memory_of_host();
    if (first_ == 0) first_ = begun_;
}

void MemoryGuard::reading_ends(Found found) {
    const std::lock_guard lock(mutex_);
    state_.due = Clock::now() + found.next + on_time;
    state_.at_begin = begun_;
    state_.found = std::move(found);
    ++readings_;
    continue_held();
    eventfd_t ignored = 0;
    ::eventfd_read(wanted_.get(), &ignored);
}

bool MemoryGuard::stopped_by_itself(pid_t pid) {
    const std::lock_guard lock(mutex_);
    const auto is = [pid](const Process& held) { return held.pid == pid; };
    return std::none_of(held_.begin(), held_.end(), is) && is_stopped(pid);
}

void MemoryGuard::pause() {
    const std::lock_guard lock(mutex_);
    paused_ = true;
    continue_held();
}

void MemoryGuard::go_on() {
    const std::lock_guard lock(mutex_);
    paused_ = false;
}

void MemoryGuard::too_much() {
    const std::lock_guard lock(mutex_);
    too_much_ = true;
    note_peak(gained_since());
}

std::uint64_t MemoryGuard::gained_since() const {
    const std::uint64_t now = memory_of_host();
    return now > state_.at_begin ? now - state_.at_begin : 0;
}

MemoryGuard::Wait MemoryGuard::used() const {
    timespec now{};
    ::clock_gettime(reader_clock_, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool MemoryGuard::is_late(Wait used_before, int looks) const {
    return used() - used_before > patience || looks > max_looks;
}

void MemoryGuard::run() {
    ::prctl(PR_SET_NAME, "callgate-memory");
    std::uint64_t reading = 0;
    Wait used_before{};
    int looks = 0;
    for (Wait pause = first_look;;) {
        pollfd ending{ending_.get(), POLLIN, 0};
        const timespec time{pause / 1s, static_cast<long>((pause % 1s).count())};
        if (::ppoll(&ending, 1, &time, nullptr) > 0) return;
        std::unique_lock lock(mutex_);
        const auto left = std::chrono::duration_cast<Wait>(state_.due - Clock::now());
        if (left > 0s) {
            pause = left;
            continue;
        }
        const std::uint64_t gained = gained_since();
        if (too_much_) note_peak(gained);
        if (gained <= state_.found.wanted_after) {
            const double seconds =
                static_cast<double>(state_.found.wanted_after - gained) / state_.found.growth;
            pause = std::clamp(Wait(static_cast<std::int64_t>(std::min(seconds, 1.0) * 1e9)), first_look,
                               last_look);
            continue;
        }
        ::eventfd_write(wanted_.get(), 1);
        if (std::exchange(reading, readings_) != readings_) {
            used_before = used();
            looks = 0;
        } else if (gained > state_.found.held_after && is_late(used_before, ++looks)) {
            note_peak(gained);
            return end(State(state_));
        }
        if (gained > state_.found.held_after) hold_tree(looks >= looks_for_parents);
        pause = looks < looks_for_parents ? between_first_looks : between_looks;
    }
}

void MemoryGuard::hold_tree(bool all) {
    if (paused_) return;
    const auto until = Clock::now() + for_parents;
    std::unordered_map<pid_t, bool> away{{guardian_, true}};
    const auto parent_is_away = [&](const Process& process) {
        if (::getpgid(process.pid) == ::getpgid(process.parent)) return true;  // no job of its parent
        const auto [known, fresh] = away.try_emplace(process.parent);
        if (fresh) known->second = is_away(process.parent, until);
        return known->second;
    };
    for_each_descendant(guardian_, [&](const Process& process) {
        const bool stopped = process.state == 'T' || process.state == 't';
        if (!process.alive() || stopped || !(all || parent_is_away(process))) return;
        signal_processes({process}, SIGSTOP);
        held_.push_back(process);
    });
}

void MemoryGuard::continue_held() {
    signal_processes({held_.rbegin(), held_.rend()}, SIGCONT);
    held_.clear();
}

/// The event loop gets the outcome first: it then ignores that the command stops. The processes that are
/// known are stopped first. To find the others may take as long as a reading.
void MemoryGuard::end(const State& state) {
    exceeded_();
    signal_processes(state.found.living, SIGSTOP);
    signal_descendants(guardian_, {SIGSTOP});
}

}  // namespace callgate::limits
