#include "supervisor/kernel/tracer.hpp"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cstdint>
#include <utility>

#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::kernel {

namespace {

void* as_argument(long value) { return reinterpret_cast<void*>(value); }  // NOLINT: not a pointer

int event_of(int status) { return static_cast<int>(static_cast<unsigned>(status) >> 16U); }

std::int64_t return_value(const user_regs_struct& registers) {
#if defined(__x86_64__)
    return static_cast<std::int64_t>(registers.rax);
#elif defined(__aarch64__)
    return static_cast<std::int64_t>(registers.regs[0]);
#endif
}

std::uint64_t stack_of(const user_regs_struct& registers) {
#if defined(__x86_64__)
    return registers.rsp;
#elif defined(__aarch64__)
    return registers.sp;
#endif
}

Result<user_regs_struct> registers_of(pid_t stopped) {
    user_regs_struct registers{};
    iovec area{&registers, sizeof registers};
    if (::ptrace(PTRACE_GETREGSET, stopped, as_argument(NT_PRSTATUS), &area) != 0) return errno_code();
    return registers;
}

}  // namespace

Result<Tracer> Tracer::seize(pid_t thread) {
    constexpr long options = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    const ReadingCaller reading;
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, as_argument(options)) != 0) return errno_code();
    Tracer tracer(thread);
    // It fails only if the thread is dying, which `wait` finds out.
    ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    return tracer;
}

Tracer::Tracer(Tracer&& other) noexcept
    : thread_(std::exchange(other.thread_, 0)), stopped_(std::exchange(other.stopped_, 0)) {}

Tracer::~Tracer() { kill(); }

Tracer::Stop Tracer::wait() {
    for (;;) {
        int status = 0;
        // Waits for every child of this thread, not for one number. A thread that is no leader executes under
        // its process's number, and a leader whose sibling executes disappears without an event.
        const pid_t found = ::waitpid(-1, &status, __WALL | __WNOTHREAD);
        if (found < 0 && errno == EINTR) continue;
        if (found > 0 && found != thread_ && event_of(status) != PTRACE_EVENT_EXEC && found != stopped_) {
            continue;  // an orphan of the tree that became our child: only reaped
        }
        if (found < 0 || !WIFSTOPPED(status)) {
            thread_ = stopped_ = 0;
            return Stop::gone;
        }
        stopped_ = found;
        switch (event_of(status)) {
            case PTRACE_EVENT_EXEC:
                return Stop::executed;
            case PTRACE_EVENT_STOP:
                // This includes a process that is being stopped: the execve is over, and `let_go` leaves it
                // stopped.
                return Stop::returned;
            default:  // about to receive a signal: it shall
                ::ptrace(PTRACE_CONT, found, nullptr,
                         as_argument(event_of(status) == 0 ? WSTOPSIG(status) : 0));
        }
    }
}

Result<int> Tracer::returned_error() const {
    const auto registers = registers_of(stopped_);
    if (!registers) return registers.error();
    constexpr std::int64_t max_errors = 4095;
    const std::int64_t value = return_value(*registers);
    return value < 0 && value >= -max_errors ? static_cast<int>(-value) : 0;
}

Result<std::uint64_t> Tracer::stack_pointer() const {
    const auto registers = registers_of(stopped_);
    if (!registers) return registers.error();
    return stack_of(*registers);
}

bool Tracer::held() const {
    unsigned long message = 0;
    return stopped_ != 0 && ::ptrace(PTRACE_GETEVENTMSG, stopped_, nullptr, &message) == 0;
}

void Tracer::let_go() {
    if (thread_ == 0) return;
    const bool gone = ::ptrace(PTRACE_DETACH, stopped_, nullptr, nullptr) != 0;
    if (gone) return kill();  // it is dying, and we must reap it
    thread_ = stopped_ = 0;
}

void Tracer::kill() {
    if (thread_ == 0) return;
    const ReadingCaller reading;
    // While it is held, its number cannot be reused.
    ::kill(stopped_ != 0 ? stopped_ : thread_, SIGKILL);
    await_death();
}

void Tracer::await_death() {
    while (thread_ != 0) {
        if (wait() != Stop::gone) ::ptrace(PTRACE_CONT, stopped_, nullptr, nullptr);
    }
}

pid_t traced_by(pid_t thread) {
    const auto found = status(thread);
    return found ? found->tracer : 0;
}

}  // namespace callgate::kernel
