#include "supervisor/receive/worker.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.hpp"
#include "base/process/capabilities.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/name_lock.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"
#include "supervisor/receive/dispatch.hpp"

namespace callgate {

void WorkerPool::Worker::prepare_thread() {
    ::prctl(PR_SET_NAME, "callgate-recv");
    sigset_t all;
    ::sigfillset(&all);
    ::sigdelset(&all, interrupt_signal);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    // The main thread keeps some capabilities aside (Run::drop_capabilities). Threads that act have none.
    if (pool_.needs_.keep_capabilities == 0) {
        if (check_enabled("capabilities") && !drop_held_capabilities()) ::_exit(125);
    } else if (!kernel::begin_acting(pool_.needs_.identity)) {
        ::_exit(125);
    }
    // These cost most the first time, so they are not left to the first call.
    pool_.needs_.decide.enforced.rules.prepare();
    caller_info_.executable.reserve(256);
    static_cast<void>(kernel::own_descriptors());
    // This thread gets its own umask and working directory, unless a container's profile refuses that.
    if (::unshare(CLONE_FS) != 0) {
        if (errno != EPERM && errno != ENOSYS) ::_exit(125);
        buffers_.shares_umask = true;
        return;
    }
    if (*kernel::proc_root == '/' && ::chdir("/") != 0) ::_exit(125);
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

/// May wait for a long time until a slot is free.
void WorkerPool::Worker::change_slot() {
    caller_info_.cache.clear();
    pool_.find_slot(*this);
}

/// Handles the next call from the kernel. Returns false if every caller is gone.
bool WorkerPool::Worker::receive() {
    stay_on(pool_.dispatch_.load(std::memory_order_relaxed) == DispatchMode::single ? -1 : slot_->processor);
    bool another_waits = handled_ % Traffic::sample_every == 0 && pool_.source_.pending();
    const auto notification = pool_.source_.receive();
    if (!notification) return notification.error().value() == EINTR || !pool_.source_.finished();
    // The next call of the same caller does not count as overlap: this thread may only have been late.
    another_waits = another_waits && notification->thread != caller_.load(std::memory_order_relaxed);
    if (pool_.dispatch_.load(std::memory_order_relaxed) == DispatchMode::affine) {
        slot_->attend();
        if (pool_.send_to_affine(*notification, *slot_)) return true;
    }
    handle(*notification, another_waits);
    return true;
}

/// Binds this thread to a processor, or to none (-1). A failure only costs time.
void WorkerPool::Worker::stay_on(int processor) {
    if (processor == stays_on_) return;
    stays_on_ = processor;
    cpu_set_t one;
    CPU_ZERO(&one);
    if (processor >= 0) CPU_SET(static_cast<std::size_t>(processor), &one);
    ::sched_setaffinity(0, sizeof one, processor >= 0 ? &one : &pool_.processors_);
}

/// Runs the handler of one call. An exception (most likely: out of memory) denies this call and nothing else.
void WorkerPool::Worker::answer(calls::Call& context, const Families& families) {
    try {
        std::optional<kernel::TakenIdentity> taken;
        if (const char* const why = take_identity(context, taken)) {
            if (!context.call.waiting()) return context.fail(ESRCH);  // ended meanwhile: nobody was denied
            calls::Subject subject;
            subject.operations = context.entry.operations;
            subject.object = rules::FileObject{};
            return calls::deny_failure(context, subject, EPERM, why);
        }
        handler_of(context.entry)(context, families, static_paths_);
    } catch (const calls::NamesHeld& held) {
        calls::Subject subject;
        subject.operations = context.entry.operations;
        subject.object = rules::FileObject{};
        calls::deny_failure(context, subject, EAGAIN, held.what());
    } catch (const std::exception&) {
        context.fail(EPERM);
    }
}

/// Acts on behalf happen with the caller's identity, from here on. Returns why it cannot be taken.
const char* WorkerPool::Worker::take_identity(calls::Call& context,
                                              std::optional<kernel::TakenIdentity>& taken) const {
    if (pool_.needs_.keep_capabilities == 0 || !check_enabled("identity")) return nullptr;
    const Result<kernel::Credentials> caller = [&context] {
        const kernel::ReadingCaller reading;
        return kernel::credentials(context.thread());
    }();
    if (!context.call.waiting()) return "the caller has ended";  // the identity read may be another's
    if (!caller) return "the caller's identity cannot be read";
    if (*caller == pool_.needs_.identity) return nullptr;
    taken.emplace(*caller);
    if (!taken->taken())
        return "the caller has changed its identity, and the kernel does not let callgate take it";
    return kernel::may_read(context.thread())
               ? nullptr
               : "the caller has changed its identity and executed nothing since, so it is not dumpable: "
                 "only "
                 "CAP_SYS_PTRACE reads it; start the container with --cap-add SYS_PTRACE";
}

/// Returns false if the pool stops: `stop` may have overlooked this call, which is left to the kernel.
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

/// Answers a call that the filter would have refused silently. Returns false if it is no such call.
bool WorkerPool::Worker::refuse(kernel::PendingCall& call) {
    if (pool_.needs_.refused == nullptr) return false;
    const kernel::Notification& notified = call.notification();
    const auto refused = pool_.needs_.refused->find(notified.call, notified.arguments);
    if (refused.kind == nullptr) return false;
    try {
        pool_.needs_.refusals->note(pool_.needs_.decide, caller_info_, notified, refused);
    } catch (const std::exception&) {
        // Out of memory: the call is refused all the same.
    }
    call.fail(refused.error);
    return true;
}

void WorkerPool::Worker::serve(kernel::PendingCall& call, std::int64_t started_ns,
                               std::vector<approval::Approval>* approvals) {
    caller_info_.forget();
    if (refuse(call)) return;
    if (const enforce::CallEntry* entry = enforce::find_call(call.notification().call)) {
        if (NestedRuns* const nested = pool_.needs_.nested; nested != nullptr && nested->any.load()) {
            const std::shared_ptr<const Judges> of_caller = nested->of(call.notification().thread);
            // The thread's number may have been given anew while its mark was read.
            if (of_caller == nullptr || !call.waiting()) return void(call.fail(EPERM));
            answer_by(*of_caller, call, *entry, started_ns, approvals);
        } else {
            answer_by({pool_.needs_.decide, pool_.needs_.families}, call, *entry, started_ns, approvals);
        }
    } else {
        call.fail(ENOSYS);  // the filter notifies only of calls that are in the table
    }
    if (!call.answered()) call.fail(EPERM);
}

void WorkerPool::Worker::answer_by(const Judges& judges, kernel::PendingCall& call,
                                   const enforce::CallEntry& entry, std::int64_t started_ns,
                                   std::vector<approval::Approval>* approvals) {
    calls::Call context{{judges.decide, call, caller_info_, entry, started_ns, approvals}, *this, buffers_};
    answer(context, judges.families);
}

void WorkerPool::Worker::end() {
    const std::uint64_t ended_as = state_.exchange(state_.load(std::memory_order_relaxed) & ~flags);
    if ((ended_as & stuck_flag) != 0) pool_.no_longer_blocked(*this);
}

void WorkerPool::Worker::handle(const kernel::Notification& notification, bool another_waits) {
    if (!begin(notification)) return;
    pool_.needs_.notifications.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t started_ns = monotonic_ns();
    kernel::PendingCall call(pool_.source_, notification);
    serve(call, started_ns, nullptr);
    if (call.continued()) pool_.needs_.continued.fetch_add(1, std::memory_order_relaxed);
    end();
    // A call that blocked (its thread has no slot) says nothing about handling time.
    const bool looked_at = handled_++ % Traffic::sample_every == 0;
    if (looked_at && slot_ != nullptr) sample(another_waits, started_ns);
    clear_interruption();
}

/// Handles a call that was parked and has its answer: from the beginning, as if it had come now.
void WorkerPool::Worker::handle(approval::ParkedCall parked) {
    if (!begin(parked.call.notification())) return;
    if (parked.call.waiting()) {
        serve(parked.call, parked.started_ns, &parked.approvals);
        if (parked.call.continued()) pool_.needs_.continued.fetch_add(1, std::memory_order_relaxed);
    } else {
        parked.call.fail(EPERM);  // the caller no longer waits; the duty to answer ends here
    }
    end();
    clear_interruption();
}

void WorkerPool::Worker::sample(bool another_waits, std::int64_t since_ns) {
    constexpr auto relaxed = std::memory_order_relaxed;
    pool_.samples_.fetch_add(1, relaxed);
    if (another_waits) pool_.overlaps_.fetch_add(1, relaxed);
    pool_.handling_ns_.fetch_add(std::min(monotonic_ns() - since_ns, Traffic::max_sample_ns), relaxed);
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
