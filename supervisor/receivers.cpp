#include "supervisor/receivers.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "rules/test_switch.hpp"
#include "supervisor/calls/decide.hpp"
#include "supervisor/calls/table.hpp"

namespace callgate {

namespace {

constexpr int interrupt_signal = SIGURG;  // ignored by default, and by nobody sent to us
constexpr std::uint32_t sample_every = 16;
constexpr int max_parallel = 4;
// Beyond this many calls in a tick the tree does little but call: then one receiver that wakes its caller on
// its own processor does more than several.
constexpr std::uint64_t mostly_calls = 400;
constexpr std::uint32_t enough_samples = 8;

int processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void install_interrupt_handler() {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // only to make blocking calls return EINTR
    ::sigaction(interrupt_signal, &action, nullptr);
}

}  // namespace

/// One thread.
class Receivers::Worker final : public calls::Blocking {
public:
    explicit Worker(Receivers& pool) : pool_(pool), thread_([this] { run(); }) {}
    void join() { thread_.join(); }
    void detach() { thread_.detach(); }

    bool enter() override;
    void leave() override;
    Interruption interruption() override { return interruption_.load(); }
    bool expects_blocking() override { return calls::now_ns() < pool_.cautious_until_ns_.load(); }

    /// Watchdog: marks a call that lasts as stuck. True where it is newly so.
    bool mark_stuck();
    /// Watchdog: interrupts a blocked call whose caller is gone or has a signal.
    void interrupt_if_needed();
    void interrupt() { ::pthread_kill(thread_.native_handle(), interrupt_signal); }
    [[nodiscard]] bool busy() const { return (state_.load() & flags) != 0; }
    [[nodiscard]] bool waits() const { return (state_.load() & (stuck_flag | blocked_flag)) != 0; }
    std::atomic<bool> ended{false};

private:
    // The state is a count of calls and what the current one is.
    static constexpr std::uint64_t busy_flag = 1, stuck_flag = 2, blocked_flag = 4, flags = 7, step = 8;

    void run();
    void prepare_thread();
    void answer(calls::CallContext& context);
    bool same_identity(calls::CallContext& context);
    void handle(const kernel::Notification& notification);
    void clear_interruption();

    Receivers& pool_;
    calls::Scratch scratch_;
    std::atomic<std::uint64_t> state_{0};
    std::uint64_t last_seen_ = 0;  // watchdog only
    std::mutex interrupting_;
    std::atomic<std::uint64_t> id_{0};
    std::atomic<pid_t> caller_{0};
    std::atomic<Interruption> interruption_{Interruption::none};
    std::thread thread_;
};

void Receivers::Worker::prepare_thread() {
    ::prctl(PR_SET_NAME, "callgate-recv");
    sigset_t all;
    ::sigfillset(&all);
    ::sigdelset(&all, interrupt_signal);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    // An umask and a working directory of this thread's own.
    if (::unshare(CLONE_FS) != 0 || ::chdir("/") != 0) ::_exit(125);
    ::umask(0);
    scratch_.umask = 0;
}

void Receivers::Worker::run() {
    prepare_thread();
    std::uint32_t count = 0;
    while (!pool_.stopping_.load(std::memory_order_relaxed)) {
        if (pool_.active_.load(std::memory_order_relaxed) > pool_.wanted_.load(std::memory_order_relaxed)) {
            if (pool_.park()) continue;
        }
        if (++count % sample_every == 0) {
            pool_.samples_.fetch_add(1, std::memory_order_relaxed);
            if (pool_.source_.pending()) pool_.overlaps_.fetch_add(1, std::memory_order_relaxed);
        }
        const auto notification = pool_.source_.receive();
        if (notification) {
            handle(*notification);
        } else if (notification.error().value() != EINTR && pool_.source_.finished()) {
            break;  // every caller is gone
        }
    }
    pool_.active_.fetch_sub(1);
    pool_.end_worker();
    ended.store(true);
}

/// One call; whatever goes wrong in it (memory, most likely) denies it and nothing else.
void Receivers::Worker::answer(calls::CallContext& context) {
    try {
        if (pool_.run_.keep_capabilities && check_enabled("identity") && !same_identity(context)) {
            calls::Subject subject;
            subject.operations = context.entry.operations;
            subject.object = rules::FileObject{};
            return calls::deny_failure(context, subject, EPERM, "the caller has changed its identity");
        }
        context.entry.handle(context);
    } catch (const std::exception&) {
        context.fail(EPERM);
    }
}

/// Acts on behalf are done as who started the run.
bool Receivers::Worker::same_identity(calls::CallContext& context) {
    const auto now = kernel::status(context.thread());
    const kernel::Status& start = pool_.run_.identity;
    return now && now->effective_uid == start.effective_uid && now->fs_uid == start.fs_uid &&
           now->fs_gid == start.fs_gid && now->groups == start.groups;
}

void Receivers::Worker::handle(const kernel::Notification& notification) {
    const std::uint64_t count = (state_.load(std::memory_order_relaxed) & ~flags) + step;
    id_.store(notification.id, std::memory_order_relaxed);
    caller_.store(notification.thread, std::memory_order_relaxed);
    state_.store(count | busy_flag);
    if (pool_.watchdog_asleep_.load(std::memory_order_relaxed) && pool_.watchdog_asleep_.exchange(false)) {
        pool_.wake_watchdog_();
    }
    pool_.run_.notifications.fetch_add(1, std::memory_order_relaxed);

    kernel::PendingCall call(pool_.source_, notification);
    if (const calls::CallEntry* entry = calls::find_call(notification.call)) {
        scratch_.executable.clear();
        calls::CallContext context{pool_.run_, call, *this, scratch_, *entry, calls::now_ns()};
        answer(context);
    } else {
        call.fail(ENOSYS);  // nothing that is not in the table is ever trapped
    }
    if (!call.answered()) call.fail(EPERM);
    const std::uint64_t ended_as = state_.exchange(count);
    if ((ended_as & stuck_flag) != 0) {
        const std::lock_guard lock(pool_.mutex_);
        --pool_.blocked_;
        pool_.active_.fetch_add(1);
    }
    clear_interruption();
}

/// A signal that was sent for this call must not end a blocking call of the next one.
void Receivers::Worker::clear_interruption() {
    if (interruption_.load(std::memory_order_relaxed) == Interruption::none) return;
    const std::lock_guard lock(interrupting_);
    ::syscall(SYS_getppid);  // a pending signal is delivered here
    interruption_.store(Interruption::none);
}

bool Receivers::Worker::enter() {
    const std::lock_guard lock(pool_.mutex_);
    if ((state_.load() & stuck_flag) != 0) return true;  // the watchdog was faster
    if (pool_.blocked_ >= max_blocked) return false;
    ++pool_.blocked_;
    state_.fetch_or(blocked_flag);
    pool_.active_.fetch_sub(1);
    if (pool_.replace()) return true;
    // No thread can be made and nobody else receives: blocking now would hold everybody up.
    --pool_.blocked_;
    state_.fetch_and(~blocked_flag);
    pool_.active_.fetch_add(1);
    return false;
}

void Receivers::Worker::leave() {
    const std::lock_guard lock(pool_.mutex_);
    if ((state_.load() & blocked_flag) == 0) return;
    state_.fetch_and(~blocked_flag);
    --pool_.blocked_;
    pool_.active_.fetch_add(1);
}

bool Receivers::Worker::mark_stuck() {
    std::uint64_t now = state_.load();
    const bool lasted = (now & flags) == busy_flag && now == last_seen_;
    last_seen_ = now;
    return lasted && state_.compare_exchange_strong(now, now | stuck_flag);
}

void Receivers::Worker::interrupt_if_needed() {
    const std::lock_guard lock(interrupting_);
    const std::uint64_t id = id_.load();
    if (!waits()) return;
    Interruption why = Interruption::none;
    if (!pool_.source_.waiting(id)) {
        why = Interruption::gone;
    } else if (const auto caller = kernel::status(caller_.load()); caller && caller->pending != 0) {
        why = Interruption::signal;
    }
    if (why == Interruption::none || id_.load() != id || !waits()) return;
    interruption_.store(why);
    interrupt();
}

Receivers::Receivers(kernel::NotificationSource& source, calls::Supervision& run,
                     std::function<void()> wake_watchdog)
    : source_(source), run_(run), wake_watchdog_(std::move(wake_watchdog)) {}

Receivers::~Receivers() { stop(); }

void Receivers::start() {
    install_interrupt_handler();
    source_.wake_synchronously(true);
    const std::lock_guard lock(mutex_);
    if (!spawn()) throw std::system_error(EAGAIN, std::generic_category(), "cannot start a receiving thread");
}

/// With mutex_ held. False: the system gives no further thread.
bool Receivers::spawn() {
    ++running_;
    active_.fetch_add(1);
    try {
        workers_.push_back(std::make_unique<Worker>(*this));
        return true;
    } catch (const std::system_error&) {
        --running_;
        active_.fetch_sub(1);
        return false;
    }
}

/// With mutex_ held: another takes the place of one that blocks. False: none could be found and nobody
/// receives.
bool Receivers::replace() {
    while (active_.load() < wanted_.load() && !stopping_.load()) {
        if (spare_ > 0) {
            --spare_;
            ++called_;
            active_.fetch_add(1);
            parked_.notify_one();
        } else if (!spawn()) {
            return active_.load() > 0;
        }
    }
    return true;
}

/// A worker too many waits until it is needed. True where it slept.
bool Receivers::park() {
    std::unique_lock lock(mutex_);
    if (active_.load() <= wanted_.load() || stopping_.load()) return false;
    active_.fetch_sub(1);
    ++spare_;
    parked_.wait(lock, [this] { return called_ > 0 || stopping_.load(); });
    if (called_ > 0) {
        --called_;  // whoever called has counted this worker as active already
    } else {
        active_.fetch_add(1);
    }
    return true;
}

void Receivers::end_worker() {
    const std::lock_guard lock(mutex_);
    --running_;
}

/// One receiver and synchronous wake-ups while calls come singly or do little else than come, several without
/// while those of callers with work of their own overlap.
void Receivers::adapt() {
    const bool busy = run_.notifications.load() - seen_notifications_ > mostly_calls;
    if (!busy && samples_.load() < enough_samples) return;
    const std::uint32_t samples = samples_.exchange(0);
    const std::uint32_t overlaps = overlaps_.exchange(0);
    const bool parallel = wanted_.load() > 1;
    if (!parallel && !busy && overlaps * 3 > samples) {
        const int several = std::clamp(processors(), 1, max_parallel);
        if (several == 1) return;
        source_.wake_synchronously(false);
        wanted_.store(several);
        const std::lock_guard lock(mutex_);
        replace();
        serial_windows_ = 0;
    } else if (parallel) {
        constexpr int windows_before_serial = 10;
        serial_windows_ = busy || overlaps * 20 < samples ? serial_windows_ + 1 : 0;
        if (serial_windows_ < (busy ? 2 : windows_before_serial)) return;
        wanted_.store(1);
        source_.wake_synchronously(true);
    }
}

bool Receivers::tick() {
    adapt();
    bool waiting = false;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& worker : workers_) {
            if (worker->ended.load()) continue;
            if (worker->mark_stuck()) {
                ++blocked_;
                active_.fetch_sub(1);
                constexpr std::int64_t cautious_ns = 10'000'000'000;
                cautious_until_ns_.store(calls::now_ns() + cautious_ns);
                replace();
            }
        }
        for (const auto& worker : workers_) {
            if (worker->ended.load() || !worker->waits()) continue;
            waiting = true;
            worker->interrupt_if_needed();
        }
    }
    const std::uint64_t notifications = run_.notifications.load();
    quiet_ticks_ = waiting || notifications != seen_notifications_ ? 0 : quiet_ticks_ + 1;
    seen_notifications_ = notifications;
    constexpr int ticks_before_sleep = 50;
    if (quiet_ticks_ < ticks_before_sleep) return true;
    quiet_ticks_ = 0;
    watchdog_asleep_.store(true);
    // A call that began before it could see that nobody watches.
    if (run_.notifications.load() == seen_notifications_) return false;
    watchdog_asleep_.store(false);
    return true;
}

void Receivers::stop() {
    stopping_.store(true);
    parked_.notify_all();
    constexpr auto patience = std::chrono::seconds(2);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        bool all = true;
        {
            const std::lock_guard lock(mutex_);
            for (const auto& worker : workers_) {
                if (worker->ended.load()) continue;
                all = false;
                worker->interrupt();
            }
            parked_.notify_all();
        }
        if (all || std::chrono::steady_clock::now() > deadline) break;
        ::sched_yield();
    }
    for (auto& worker : workers_) {
        // A thread that hangs in a file system cannot be ended; the process's end takes it.
        if (worker->ended.load()) {
            worker->join();
        } else {
            worker->detach();
            static_cast<void>(worker.release());
        }
    }
    workers_.clear();
}

}  // namespace callgate
