// Messages between supervisor and guardian: fixed-size, over two pipes.
//
// Both ends are ours; the target never holds a copy (CLOEXEC, closed before execve). A short read or an
// unknown kind means that the other side is gone.
#pragma once

#include <cstdint>

namespace callgate::agent {

/// Supervisor → guardian.
struct Order {
    enum class Kind : std::uint32_t {
        signal,        // send signal number `value` to the command
        group_signal,  // the same to its process group, a separate one if the run has a terminal
        foreground,    // make the command the foreground group of the run's terminal, and continue it
        background,    // no group of the run is in the foreground: a reader of the terminal is stopped
        deadline,   // `milliseconds` from now on: end the tree as `terminate` and, after the grace, `end` do
        stopping,   // the supervisor stops itself, as the command has stopped
        resumed,    // it goes on
        terminate,  // SIGTERM to the whole tree
        end,        // stop and SIGKILL the whole tree
        dismiss,    // the supervisor cleans up and reports itself
    };
    Kind kind = Kind::signal;
    std::int32_t value = 0;
    std::int64_t milliseconds = 0;  // with `deadline`
};

/// The step of confining itself that failed in the agent.
enum class ConfineStep : std::int32_t {
    process_group,
    working_directory,
    descriptors,
    limits,
    capabilities,
    no_new_privs,
    landlock,
    filter,
    handshake,
    temporary_directory,
    ruleset,
    priority,
    nested
};

/// Guardian → supervisor, in this order: ready, confined, then any of stopped and continued, then exited or
/// signaled, lingering, ended. `expired` may come at any moment of these. After confine_failed or exec_failed
/// only `ended` follows.
struct Event {
    enum class Kind : std::uint32_t {
        ready,           // guardian and agent wait for the agent's orders
        confined,        // descriptor(); `pid` is the agent
        confine_failed,  // error(), step(); the command never ran
        exec_failed,     // error() of execve
        stopped,         // signal() that stopped the command; never a tracer's stop
        continued,
        exited,     // exit_code()
        signaled,   // signal() that killed it
        lingering,  // processes_left() after the command ended
        ended,      // no process of the tree is left; directory_removed()
        expired,    // the deadline has passed, and the tree is being ended
    };
    Kind kind = Kind::ended;
    std::int32_t pid = 0;
    std::int32_t value = 0;  // its meaning depends on `kind`; read it by the functions below
    std::int32_t detail = 0;
    /// Usage of the whole tree (with `ended`): microseconds of CPU, KiB of the largest process, bytes that
    /// went to storage (getrusage(2), ru_oublock), processes reaped.
    std::uint64_t cpu_us = 0, max_rss_kb = 0, bytes_written = 0, processes = 0;

    [[nodiscard]] int error() const { return value; }  // an errno
    [[nodiscard]] ConfineStep step() const { return static_cast<ConfineStep>(detail); }
    /// The listener's number in the agent; negative if there is none.
    [[nodiscard]] int descriptor() const { return value; }
    [[nodiscard]] int signal() const { return value; }
    [[nodiscard]] int exit_code() const { return value; }
    [[nodiscard]] std::uint64_t processes_left() const { return static_cast<std::uint64_t>(value); }
    /// Whether nothing of the run's private directory is left.
    [[nodiscard]] bool directory_removed() const { return value == 0; }
};

}  // namespace callgate::agent
