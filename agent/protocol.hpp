// Messages between supervisor and guardian: fixed size, over two pipes.
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
        terminate,     // SIGTERM to the whole tree
        end,           // stop and SIGKILL the whole tree
        dismiss,       // the supervisor cleans up and reports itself
    };
    Kind kind = Kind::signal;
    std::int32_t value = 0;
};

/// Guardian → supervisor, in this order: ready, confined, then any of stopped and continued, then exited or
/// signaled, lingering, ended. Only `ended` follows confine_failed or exec_failed.
struct Event {
    enum class Kind : std::uint32_t {
        ready,           // guardian and agent wait for the launch messages
        confined,        // value: the listener's number in the agent, pid: the agent
        confine_failed,  // value: errno, detail: ConfineStep; the command never ran
        exec_failed,     // value: errno of execve
        stopped,         // value: the signal that stopped the command
        continued,
        exited,     // value: exit code
        signaled,   // value: the signal that killed it
        lingering,  // value: how many processes are left after the command ended
        ended,      // no process of the tree is left; value: 1 if part of its private directory is
    };
    Kind kind = Kind::ended;
    std::int32_t pid = 0;
    std::int32_t value = 0;
    std::int32_t detail = 0;
    /// Usage of the whole tree (with `ended`): microseconds of CPU, KiB of the largest process, bytes written
    /// to storage (getrusage(2), ru_oublock), processes reaped.
    std::uint64_t cpu_us = 0, max_rss_kb = 0, bytes_written = 0, processes = 0;
};

/// The step of confinement that failed (detail of confine_failed).
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
    priority
};

}  // namespace callgate::agent
