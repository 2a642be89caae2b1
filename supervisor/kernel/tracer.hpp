// Holds one execve(2) of a stopped thread between its success and the new program's first instruction, by
// ptrace(2).
//
// A `Tracer` owns the relation to one thread of the target. It ends by `let_go` or `kill`; destroying it
// otherwise kills (closed on failure). While the thread's notification is pending, the thread is seized and
// told to stop. The stop waits until the call was answered, so exactly one follows (docs/dev/kernel-facts.md
// 31): PTRACE_EVENT_EXEC before the new program's first instruction, or PTRACE_EVENT_STOP on the way back
// from an execve that failed. If callgate dies, PTRACE_O_EXITKILL makes the kernel kill the held process. The
// thread that seized calls all functions of a Tracer, because a ptrace relation belongs to a thread. A thread
// has at most one.
//
// An attacker controls when threads of its process die, stop or execute, and may trace its own threads, which
// makes `seize` fail. It cannot make a stop go unnoticed, and cannot detach us.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.hpp"

namespace callgate::kernel {

class Tracer {
public:
    /// Seizes `thread`, which waits for the answer to its notification: PTRACE_SEIZE and PTRACE_INTERRUPT.
    /// EPERM: another process traces it, or it is not dumpable; ESRCH: it is gone.
    [[nodiscard]] static Result<Tracer> seize(pid_t thread);
    Tracer(Tracer&& other) noexcept;
    Tracer& operator=(Tracer&&) = delete;
    ~Tracer();

    enum class Stop {
        executed,  // the new program waits before its first instruction
        returned,  // the call came back without executing, or was never made
        gone,      // the thread is dead, and none is held
    };
    /// Blocks until one of the three happens. Call it after the call was answered.
    [[nodiscard]] Stop wait();

    /// The process that waits after `executed`. The thread that executed is its only thread now and has the
    /// process's number.
    [[nodiscard]] pid_t process() const { return stopped_; }
    /// The call's result after `returned`: 0, or a positive errno (512 and above: it will be restarted).
    [[nodiscard]] Result<int> returned_error() const;

    /// The new program's stack pointer after `executed`.
    [[nodiscard]] Result<std::uint64_t> stack_pointer() const;

    /// Whether the process is still stopped: a SIGKILL can end it at any moment.
    [[nodiscard]] bool held() const;

    /// Detaches: the thread continues with its pending signals, and stays stopped if its process is stopped.
    void let_go();
    /// Kills the held process and waits for its death.
    void kill();

private:
    explicit Tracer(pid_t thread) : thread_(thread) {}
    void await_death();

    pid_t thread_ = 0;   // 0: none is held
    pid_t stopped_ = 0;  // the number under which the stop was reported
};

/// The process that traces `thread`; 0: none or unknown.
[[nodiscard]] pid_t traced_by(pid_t thread);

}  // namespace callgate::kernel
