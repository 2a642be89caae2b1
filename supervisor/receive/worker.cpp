#include "supervisor/receive/worker.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/process/capabilities.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/dispatch.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "base/clock.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate {

void WorkerPool::Worker::prepare_thread() {
    ::prctl(PR_SET_NAME, "callgate-recv");
    sigset_t all;
    ::sigfillset(&all);
    ::sigdelset(&all, interrupt_signal);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    // What the main thread has set aside (Run::drop_capabilities) is not within reach of those that act.
    if (!pool_.run_.keep_capabilities && check_enabled("capabilities") && !drop_held_capabilities())
        ::_exit(125);
    // What costs most the first time is not done within a call: a thread's allocation, finding this
    // directory.
    buffers_.executable.reserve(256);
    static_cast<void>(kernel::own_descriptors());
    // An umask and a working directory of this thread's own, unless a container's profile refuses that.
    if (::unshare(CLONE_FS) != 0) {
        if (errno != EPERM && errno != ENOSYS) ::_exit(125);
        buffers_.shares_umask = true;
        return;
    }
    if (::chdir("/") != 0) ::_exit(125);
    ::umask(0);
    buffers_.umask = 0;
}

void WorkerPool::Worker::run() {
    prepare_thread();
    pool_.started_.wait(false);
    while (!pool_.stopping_.load(std::memory_order_relaxed)) {
        if (slot_ == nullptr) {
            if (!pool_.handle_resumed(*this)) change_slot();
        } else if (const auto left = slot_->next()) {
            handle(*left, true);
        } else if (!pool_.wants(*slot_)) {  // and nothing waits here any more
            change_slot();
        } else if (!receive()) {
            break;
        }
    }
    pool_.end_worker(*this);
    ended.store(true);
}

/// It may take long until there is one.
void WorkerPool::Worker::change_slot() {
    buffers_.callers.clear();
    pool_.find_slot(*this);
}

/// The next call from the kernel. False: every caller is gone.
bool WorkerPool::Worker::receive() {
    stay_on(pool_.dispatch_.load(std::memory_order_relaxed) == DispatchMode::alone ? -1 : slot_->processor);
    bool another_waits = handled_ % Traffic::sample_every == 0 && pool_.source_.pending();
    const auto notification = pool_.source_.receive();
    if (!notification) return notification.error().value() == EINTR || !pool_.source_.finished();
    // The last caller's next call says nothing: we may have been late.
    another_waits = another_waits && notification->thread != caller_.load(std::memory_order_relaxed);
    if (pool_.dispatch_.load(std::memory_order_relaxed) == DispatchMode::crowd) {
        slot_->attend();
        if (pool_.send_home(*notification, *slot_)) return true;
    }
    handle(*notification, another_waits);
    return true;
}

/// A processor, or any (-1). What cannot be had only costs time.
void WorkerPool::Worker::stay_on(int processor) {
    if (processor == stays_on_) return;
    stays_on_ = processor;
    cpu_set_t one;
    CPU_ZERO(&one);
    if (processor >= 0) CPU_SET(static_cast<std::size_t>(processor), &one);
    ::sched_setaffinity(0, sizeof one, processor >= 0 ? &one : &pool_.processors_);
}

/// One call; whatever goes wrong in it (memory, most likely) denies it and nothing else.
void WorkerPool::Worker::answer(calls::CallContext& context) {
    try {
        if (pool_.run_.keep_capabilities && check_enabled("identity") && !same_identity(context)) {
            calls::Subject subject;
            subject.operations = context.entry.operations;
            subject.object = rules::FileObject{};
            return calls::deny_failure(context, subject, EPERM, "the caller has changed its identity");
        }
        calls::handler_of(context.entry)(context);
    } catch (const std::exception&) {
        context.fail(EPERM);
    }
}

/// Acts on behalf are done as who started the run.
bool WorkerPool::Worker::same_identity(calls::CallContext& context) {
    const auto now = kernel::status(context.thread());
    const kernel::Status& start = pool_.run_.identity;
    return now && now->effective_uid == start.effective_uid && now->fs_uid == start.fs_uid &&
           now->fs_gid == start.fs_gid && now->groups == start.groups;
}

/// False: the pool stops, and whoever stops it may not know of this call: it is left to the kernel.
bool WorkerPool::Worker::begin(const kernel::Notification& notification) {
    const std::uint64_t count = (state_.load(std::memory_order_relaxed) & ~flags) + step;
    id_.store(notification.id, std::memory_order_relaxed);
    caller_.store(notification.thread, std::memory_order_relaxed);
    state_.store(count | busy_flag);
    if (pool_.stopping_.load()) {  // after the state: either this is seen here, or that by `stop`
        end();
        return false;
    }
    if (pool_.watchdog_asleep_.load(std::memory_order_relaxed) && pool_.watchdog_asleep_.exchange(false)) {
        pool_.wake_watchdog_();
    }
    return true;
}

void WorkerPool::Worker::serve(kernel::PendingCall& call, std::int64_t started_ns,
                              std::vector<approval::Approval>* approvals) {
    if (const enforce::CallEntry* entry = enforce::find_call(call.notification().call)) {
        buffers_.executable.clear();
        calls::CallContext context{pool_.run_, call, *this, buffers_, *entry, started_ns, approvals};
        answer(context);
    } else {
        call.fail(ENOSYS);  // nothing that is not in the table is ever notified
    }
    if (!call.answered()) call.fail(EPERM);
}

void WorkerPool::Worker::end() {
    const std::uint64_t ended_as = state_.exchange(state_.load(std::memory_order_relaxed) & ~flags);
    if ((ended_as & stuck_flag) != 0) pool_.no_longer_blocked(*this);
}

void WorkerPool::Worker::handle(const kernel::Notification& notification, bool another_waits) {
    if (!begin(notification)) return;
    pool_.run_.notifications.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t started_ns = monotonic_ns();
    kernel::PendingCall call(pool_.source_, notification);
    serve(call, started_ns, nullptr);
    if (call.continued()) pool_.run_.continued.fetch_add(1, std::memory_order_relaxed);
    end();
    // Not one that blocked: its time says nothing.
    const bool looked_at = handled_++ % Traffic::sample_every == 0;
    if (looked_at && slot_ != nullptr) sample(another_waits, started_ns);
    clear_interruption();
}

/// A call that has its answer: from the beginning, as if it had come now.
void WorkerPool::Worker::handle(approval::ParkedCall parked) {
    if (!begin(parked.call.notification())) return;
    if (parked.call.waiting()) {
        serve(parked.call, parked.started_ns, &parked.approvals);
        if (parked.call.continued()) pool_.run_.continued.fetch_add(1, std::memory_order_relaxed);
    } else {
        parked.call.fail(EPERM);  // nobody waits: only to have answered it
    }
    end();
    clear_interruption();
}

void WorkerPool::Worker::sample(bool another_waits, std::int64_t since_ns) {
    constexpr auto relaxed = std::memory_order_relaxed;
    pool_.samples_.fetch_add(1, relaxed);
    if (another_waits) pool_.overlaps_.fetch_add(1, relaxed);
    pool_.handling_ns_.fetch_add(std::min(monotonic_ns() - since_ns, Traffic::longest_sample_ns), relaxed);
}

/// A signal that was sent for this call must not end a blocking call of the next one.
void WorkerPool::Worker::clear_interruption() {
    if (interruption_.load(std::memory_order_relaxed) == Interruption::none) return;
    const std::lock_guard lock(interrupting_);
    ::syscall(SYS_getppid);  // a pending signal is delivered here
    interruption_.store(Interruption::none);
}

bool WorkerPool::Worker::enter() {
    const std::lock_guard lock(pool_.mutex_);
    if ((state_.load() & stuck_flag) != 0) return true;  // the watchdog was faster
    if (pool_.blocked_ >= pool_.may_block_) return false;
    if (!pool_.take_over(*this)) return false;
    slot_ = nullptr;
    ++pool_.blocked_;
    state_.fetch_or(blocked_flag);
    pool_.attend_resumed();
    return true;
}

void WorkerPool::Worker::leave() {
    const std::lock_guard lock(pool_.mutex_);
    if ((state_.load() & blocked_flag) == 0) return;
    state_.fetch_and(~blocked_flag);
    --pool_.blocked_;
}

bool WorkerPool::Worker::mark_stuck() {
    std::uint64_t now = state_.load();
    const bool lasted = (now & flags) == busy_flag && now == last_seen_;
    last_seen_ = now;
    return lasted && state_.compare_exchange_strong(now, now | stuck_flag);
}

void WorkerPool::Worker::interrupt_if_needed() {
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

}  // namespace callgate
