#include "supervisor/run/limits/tree_limits.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "base/process/open_files.hpp"
#include "base/process/spawn.hpp"
#include "base/test_switch.hpp"
#include "supervisor/run/limits/disk_usage.hpp"

namespace callgate::limits {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds soonest = 2ms, latest = 1s, longest = 1h;
constexpr double slowest_disk_growth = 500e6;  // bytes a second
constexpr double fastest_names = 500e6;        // bytes a second that callgate can make of names
/// Bytes a second at which a processor fills memory. A faster growth that was seen replaces it.
constexpr double processor_growth = 4e9;
/// A pause is this many times as long as a reading, unless a limit is near.
constexpr int pause_factor = 100;
constexpr int disk_pause_factor = 20, memory_pause_factor = 20;

/// Half the time until the limit can be reached, `most` at the most.
std::chrono::nanoseconds due(std::uint64_t used, std::uint64_t limit, double growth,
                             std::chrono::nanoseconds most = latest) {
    if (used >= limit) return soonest;
    const double seconds = std::min(static_cast<double>(limit - used) / (2 * growth),
                                    std::chrono::duration<double>(most).count());
    return std::clamp(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)), soonest, most);
}

/// How far the tree may come beyond its memory limit: what docs/limits.md promises of one process.
std::uint64_t tolerated(std::uint64_t limit) { return std::max<std::uint64_t>(limit / 4, 64U << 20U); }

/// The time in which memory cannot grow further than a quarter of that. The rest is for stopping the tree.
std::chrono::nanoseconds memory_due(std::uint64_t used, std::uint64_t limit, double growth) {
    if (used >= limit) return soonest;
    const double seconds = static_cast<double>(limit - used + tolerated(limit) / 4) / growth;
    return std::clamp(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)), soonest, latest);
}

/// This thread's own time. What it waits for a processor does not make a reading dearer.
std::chrono::nanoseconds own_time() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::uint64_t gain(std::uint64_t now, std::uint64_t at_start) { return now > at_start ? now - at_start : 0; }

}  // namespace

bool TreeLimits::any(const rules::Limits& limits) {
    return limits.memory || limits.processes || limits.cpu || limits.disk || limits.idle;
}

TreeLimits::TreeLimits(TreeLimitSettings settings)
    : settings_(std::move(settings)),
      groups_(*settings_.groups),
      meter_(settings_.guardian, *settings_.made, *settings_.by_nested),
      fastest_growth_(processor_growth * std::clamp(std::thread::hardware_concurrency(), 1U, 2U)) {
    if (!ending_) throw std::runtime_error("cannot make an eventfd: " + errno_code().message());
    if (const auto added = groups_.add(settings_.agent); !added)
        throw std::runtime_error("cannot put the command into its control group: " + added.error().message());
    peak_.memory_in_group = groups_.hold_memory();
    peak_.tasks_in_group = groups_.hold_tasks();
    if (!settings_.limits.disk) return;
    disk_at_start_ = disk_usage(settings_.places).bytes;
    around_at_start_ = used_around(settings_.places);
    devices_ = devices_of(settings_.places);
}

TreeLimits::~TreeLimits() { stop(); }

void TreeLimits::start() {
    shared_at_start_ = shared_memory_of_host();
    active_ = Clock::now();
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the main thread handles signals
    if (settings_.limits.memory && !groups_.hold_memory() && check_enabled("memory-guard")) {
        guard_.emplace(settings_.guardian, settings_.exceeded_by, [this] { report(Outcome::memory); });
        guard_->reading_begins();
        tell_guard(0, soonest);
    }
    thread_ = std::thread([this] { run(); });
    if (guard_) guard_->start(thread_.native_handle());
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void TreeLimits::tell_guard(std::uint64_t used, Wait due) {
    if (!guard_) return;
    const std::uint64_t left = *settings_.limits.memory - used, more = tolerated(*settings_.limits.memory);
    guard_->reading_ends({used, left + more / 4, left + more, fastest_growth_, due, meter_.living()});
}

void TreeLimits::report(Outcome outcome) {
    if (!reported_.exchange(true)) settings_.exceeded(outcome);
}

std::optional<Outcome> TreeLimits::group_reached() const { return groups_.exceeded(); }

void TreeLimits::stop() {
    if (!thread_.joinable()) return;
    ::eventfd_write(ending_.get(), 1);
    thread_.join();
    if (guard_) {
        guard_->stop();
        peak_.memory = std::max(peak_.memory, guard_->peak());
    }
    if (groups_.hold_memory()) peak_.memory = groups_.peak_memory() + shared_names_;
    if (groups_.hold_tasks()) peak_.tasks = std::max(peak_.tasks, groups_.peak_tasks());
}

void TreeLimits::run() {
    ::prctl(PR_SET_NAME, "callgate-limits");
    if (check_enabled("own-descriptors"))
        keep_own_descriptors(
            {ending_.get(), groups_.out_of_memory(), guard_ ? guard_->wanted() : -1, settings_.exceeded_by});
    for (;;) {
        Wait next = Wait::max();
        std::optional<Outcome> outcome;
        {
            const std::lock_guard reading(reading_);
            outcome = look(next);
        }
        if (outcome) return end(*outcome);
        std::array<pollfd, 3> events{{{ending_.get(), POLLIN, 0},
                                      {groups_.out_of_memory(), POLLIN, 0},
                                      {guard_ ? guard_->wanted() : -1, POLLIN, 0}}};
        const auto pause = std::chrono::ceil<std::chrono::milliseconds>(std::min<Wait>(next, longest));
        if (::poll(events.data(), events.size(), static_cast<int>(pause.count())) > 0 &&
            events[0].revents != 0)
            return;
        if (events[2].revents != 0) next_reading_ = {};
    }
}

/// The event loop gets the outcome first: it then ignores that the command stops.
void TreeLimits::end(Outcome outcome) {
    if (guard_ && outcome == Outcome::memory) guard_->too_much();
    report(outcome);
    if (outcome != Outcome::memory) return;
    // The tree grows until it is stopped, so this thread stops it without waiting for the loop. In a group no
    // process shall go on without the one that the kernel kills.
    signal_descendants(settings_.guardian, {SIGSTOP});
}

void TreeLimits::stand_in() {
    auto pipe = make_pipe();
    if (guard_) guard_->pause();
    if (!pipe || !check_enabled("limits-while-stopped")) return;
    const pid_t supervisor = ::getpid();
    {
        const std::lock_guard reading(reading_);
        std::unique_lock<std::mutex> guarded;
        if (guard_) guarded = guard_->hold();
        stand_in_ = ::fork();
    }
    if (stand_in_ == 0) run_as_stand_in(supervisor, pipe->write.release());
    if (stand_in_ > 0) found_ = std::move(pipe->read);
}

/// It must keep neither the listener nor an end of the guardian's pipes, so that the end of the supervisor is
/// seen as without it. A group of its own keeps the job's stop away from it.
void TreeLimits::run_as_stand_in(pid_t supervisor, int result) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);
    const int kept = ::dup2(result, 0);
    ::close_range(1, ~0U, 0);
    if (kept != 0 || ::getppid() != supervisor) ::_exit(0);
    const auto told = [supervisor](Outcome outcome) {
        if (::write(0, &outcome, sizeof outcome) == sizeof outcome) ::kill(supervisor, SIGCONT);
        ::_exit(0);
    };
    settings_.exceeded = [this, told](Outcome outcome) {
        signal_descendants(settings_.guardian, {SIGSTOP});
        told(outcome);
    };
    if (guard_) guard_->start_in_copy(::pthread_self());
    for (;;) {
        Wait next = latest;
        if (const std::optional<Outcome> outcome = look(next)) report(*outcome);
        pollfd wanted{guard_ ? guard_->wanted() : -1, POLLIN, 0};
        const auto pause = std::chrono::ceil<std::chrono::milliseconds>(std::min<Wait>(next, latest));
        if (::poll(&wanted, 1, static_cast<int>(pause.count())) > 0) next_reading_ = {};
    }
}

void TreeLimits::end_stand_in() {
    if (guard_) guard_->go_on();
    if (stand_in_ <= 0) return;
    ::kill(stand_in_, SIGKILL);
    while (::waitpid(stand_in_, nullptr, 0) < 0 && errno == EINTR) {
    }
    stand_in_ = -1;
    Outcome outcome{};
    const UniqueFd found = std::move(found_);
    if (::read(found.get(), &outcome, sizeof outcome) == sizeof outcome) settings_.exceeded(outcome);
}

/// Groups are asked each time, which costs next to nothing; the tree is read when that is due.
std::optional<Outcome> TreeLimits::look(Wait& next) {
    if (const std::optional<Outcome> outcome = group_exceeded(next)) return outcome;
    const auto began = Clock::now();
    if (began >= next_reading_) {
        Wait needed = longest;
        if (guard_) guard_->reading_begins();
        if (const std::optional<Outcome> outcome = read_tree(needed)) return outcome;
        const auto now = Clock::now();
        // A large tree is read less often, but never later than a limit needs.
        next_reading_ = now + std::min<Wait>(needed, std::max<Wait>(latest, pause_factor * (now - began)));
    }
    next = std::min<Wait>(next, next_reading_ - Clock::now());
    return std::nullopt;
}

std::optional<Outcome> TreeLimits::read_tree(Wait& next) {
    const Wait before = own_time();
    const TreeUsage usage = meter_.read();
    const Wait took = own_time() - before;
    const rules::Limits& limits = settings_.limits;
    peak_.tasks = std::max(peak_.tasks, usage.tasks);
    if (tasks_exceeded(usage, next)) return Outcome::processes;
    if (limits.cpu) {
        if (usage.cpu >= *limits.cpu) return Outcome::cpu;
        const auto left = std::chrono::duration_cast<Wait>(*limits.cpu - usage.cpu);
        next = std::min(next, std::max<Wait>(left / std::max(1U, std::thread::hardware_concurrency()), 10ms));
    }
    if (memory_exceeded(usage, took, next) || names_exceeded(next)) return Outcome::memory;
    if (disk_exceeded(next)) return Outcome::disk;
    if (idle(usage, next)) return Outcome::idle_timeout;
    return std::nullopt;
}

/// The kernel holds these limits; readings only decide how soon the end follows.
std::optional<Outcome> TreeLimits::group_exceeded(Wait& next) const {
    if (!groups_.hold_memory() && !groups_.hold_tasks()) return std::nullopt;
    next = 50ms;
    return groups_.exceeded();
}

bool TreeLimits::tasks_exceeded(const TreeUsage& usage, Wait& next) const {
    const std::optional<std::uint64_t>& limit = settings_.limits.processes;
    if (!limit || groups_.hold_tasks()) return false;
    // A fork bomb makes some thousands of tasks in a second.
    next = std::min(next, due(usage.tasks, *limit, 5000, longest));
    return usage.tasks > *limit;
}

/// Resident bytes plus the growth of shared memory on the host are cheap to read and never too small. Shared
/// pages are reckoned only when that sum is above the limit.
bool TreeLimits::memory_exceeded(const TreeUsage& usage, Wait took, Wait& next) {
    const auto now = Clock::now();
    std::uint64_t used = usage.resident;
    if (settings_.limits.memory && !groups_.hold_memory()) {
        const std::uint64_t limit = *settings_.limits.memory;
        const std::uint64_t gained = gain(shared_memory_of_host(), shared_at_start_);
        const bool doubtful = used + gained > limit;
        const std::uint64_t most = used + gained;
        if (doubtful) used = meter_.memory(gained, limit);
        if (last_reading_ != Clock::time_point{} && most > last_memory_ && now > last_reading_) {
            const double seconds = std::chrono::duration<double>(now - last_reading_).count();
            if (seconds > 1e-3)
                fastest_growth_ =
                    std::max(fastest_growth_, static_cast<double>(most - last_memory_) / seconds);
        }
        last_memory_ = most;
        last_reading_ = now;
        peak_.memory = std::max(peak_.memory, used);
        if (used > limit) return true;
        const Wait pause = memory_due(doubtful ? used : most, limit, fastest_growth_);
        // A sum that was not reckoned has shared pages more than once. The machine's gain has them once.
        tell_guard(doubtful || !guard_ ? used : std::min(most, guard_->gained()), pause);
        next = std::min(next, std::max<Wait>(pause, memory_pause_factor * took));
        // Reckoning reads every page table; it may take a fifth of the time at most.
        if (doubtful) next = std::max(next, Wait(4 * (Clock::now() - now)));
        return false;
    }
    peak_.memory = std::max(peak_.memory, used);
    return false;
}

/// The kernel holds what the tree itself takes. Names that callgate makes for it in memory may have as much
/// again.
bool TreeLimits::names_exceeded(Wait& next) {
    if (!settings_.limits.memory || !groups_.hold_memory() || !check_enabled("memory-of-names")) return false;
    const auto began = Clock::now();
    const auto [listed, whole] = meter_.shared_names();
    const std::uint64_t names =
        whole ? listed : std::max(listed, gain(shared_memory_of_host(), shared_at_start_));
    if (names == 0) return false;
    shared_names_ = std::max(shared_names_, names);
    const Wait pause = due(names, *settings_.limits.memory, fastest_names);
    next = std::min(next, std::max<Wait>(pause, memory_pause_factor * (Clock::now() - began)));
    return names > *settings_.limits.memory;
}

bool TreeLimits::disk_exceeded(Wait& next) {
    if (!settings_.limits.disk) return false;
    const auto began = Clock::now();
    if (began < next_disk_) {
        next = std::min<Wait>(next, next_disk_ - began);
        return false;
    }
    const DiskUsage named = disk_usage(settings_.places);
    const HiddenBytes found = meter_.hidden(devices_);
    std::uint64_t added = gain(named.bytes + found.unnamed, disk_at_start_);
    if (!named.whole || (found.unlisted && check_enabled("disk-unlisted")))
        added = std::max(added, gain(used_around(settings_.places), around_at_start_));
    if (added > *settings_.limits.disk) return true;
    const auto took = Clock::now() - began;
    const Wait pause =
        std::max<Wait>(due(added, *settings_.limits.disk, slowest_disk_growth), disk_pause_factor * took);
    next_disk_ = Clock::now() + pause;
    next = std::min(next, pause);
    return false;
}

/// A tree works if it writes anything, or uses more than a hundredth of one processor.
bool TreeLimits::idle(const TreeUsage& usage, Wait& next) {
    if (!settings_.limits.idle) return false;
    const auto now = Clock::now();
    const std::uint64_t written = meter_.written();
    const auto cpu = usage.cpu - active_cpu_;
    if (written > active_written_ || cpu * 100 > now - active_) {
        active_ = now;
        active_cpu_ = usage.cpu;
        active_written_ = written;
    }
    const auto left = std::chrono::duration_cast<Wait>(*settings_.limits.idle - (now - active_));
    if (left.count() <= 0) return true;
    next = std::min(next, std::max<Wait>(left / 4, soonest));
    return false;
}

}  // namespace callgate::limits
