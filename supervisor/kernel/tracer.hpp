// Holding one execve(2) of a stopped thread between its success and the new program's first instruction, by
// ptrace(2).
//
// A `Tracer` owns the relation to one thread of the target: it ends by `let_go` or `kill`, and destroying it
// otherwise kills (closed on failure). While the thread's notification is pending it is seized and told to
// stop; the stop waits until the call was answered, so exactly one follows (kernel-facts 31):
// PTRACE_EVENT_EXEC before the new program's first instruction, or PTRACE_EVENT_STOP on the way back from an
// execve that failed. With PTRACE_O_EXITKILL the kernel ends what is held if callgate dies. ptrace is a
// relation of threads: all functions of one Tracer belong to the thread that seized, and a thread has at most
// one.
//
// An attacker controls when threads of its process die, stop or execute, and may trace its own threads, which
// makes `seize` fail. It cannot make a stop pass unnoticed, and cannot detach us.
#pragma once

#include <sys/types.h>

#include "base/result.hpp"

namespace callgate::kernel {

class Tracer {
public:
    /// Takes hold of `thread`, which waits for the answer to its notification: PTRACE_SEIZE and
    /// PTRACE_INTERRUPT. EPERM: somebody else traces it, or it is not dumpable; ESRCH: it is gone.
    [[nodiscard]] static Result<Tracer> seize(pid_t thread);
    Tracer(Tracer&& other) noexcept;
    Tracer& operator=(Tracer&&) = delete;
    ~Tracer();

    enum class Stop {
        executed,  // the new program waits before its first instruction
        returned,  // the call came back without executing, or was never made
        gone,      // the thread is dead; nothing is held any more
    };
    /// After the call was answered: blocks until it comes to one of the three.
    [[nodiscard]] Stop wait();

    /// The process that waits after `executed`: whichever thread executed, it is the only one now, and has
    /// the process's number.
    [[nodiscard]] pid_t process() const { return stopped_; }
    /// What the call gave back after `returned`: 0, or a positive errno (512 and above: it will be made
    /// again).
    [[nodiscard]] Result<int> returned_error() const;

    /// Whether what stopped still stands there: a SIGKILL takes it away at any moment.
    [[nodiscard]] bool held() const;

    /// Goes on as if nobody had traced: with its pending signals, and stopped if its process is stopped.
    void let_go();
    /// Ends the process of what is held, and waits for its death.
    void kill();

private:
    explicit Tracer(pid_t thread) : thread_(thread) {}
    void await_death();

    pid_t thread_ = 0;   // 0: nothing is held
    pid_t stopped_ = 0;  // the number under which the stop was reported
};

/// The process that traces `thread`; 0: none, or it cannot be known.
[[nodiscard]] pid_t traced_by(pid_t thread);

}  // namespace callgate::kernel
