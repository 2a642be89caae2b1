// The guardian: child subreaper of the whole tree, parent of the command, never armed.
//
// It ends every descendant when the supervisor is gone (its end of `orders` closes), passes signals on, reaps,
// and tells the supervisor what became of the command. The target cannot signal, trace or limit it (Landlock
// scopes and the filter). Without a terminal relay it sits in a process group of its own and ignores terminal
// signals, while the command rejoins callgate's group (architecture.md, Processes).
#pragma once

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/protocol.hpp"
#include "agent/unique_fd.hpp"

namespace callgate::agent {

struct Limit {
    int resource = 0;  // RLIMIT_*
    rlimit value{};
};

enum class Background : std::uint8_t { end, wait };

/// Everything the agent needs, computed before the fork: between fork and execve nothing allocates.
struct Arming {
    std::vector<std::string> command;      // argv
    std::vector<std::string> environment;  // "NAME=value"
    /// Candidates for execve in PATH order, absolute; tried until one is not ENOENT/ENOTDIR/EACCES, as execvpe does.
    std::vector<std::string> executables;
    UniqueFd working_directory;            // O_PATH; the command starts there
    std::vector<int> pass;                 // descriptors beyond 0..2 that stay open
    std::vector<Limit> limits;
    int landlock_ruleset = -1;             // -1: none (audit mode)
    const std::vector<sock_filter>* filter = nullptr;
    bool keep_capabilities = false;
    int nice = 0;                          // added, 0: unchanged
    std::optional<int> io_priority;        // ioprio_set value
    Background background = Background::end;
    std::string temporary_directory;       // removed by the guardian if the supervisor is gone; "" none
    /// Where and how a report is written if the supervisor is lost: descriptor or -1, and the text up to `}`.
    int report = -1;
    std::string lost_report;
};

struct Guardian {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd orders;  // write end
    UniqueFd events;  // read end
    /// The agent waits on this after `armed` until one byte says that the listener was taken; closing it ends it.
    UniqueFd go;      // write end
};

/// Forks guardian and agent. Single-threaded callers only. Errors: errno of pipe2, fork, pidfd_open.
[[nodiscard]] boost::system::result<Guardian> start_guardian(const Arming& arming);

/// Ends all descendants of `root` (not `root` itself): SIGSTOP until nothing new appears, then SIGKILL. Returns how
/// many were killed. Used by the guardian, and by the supervisor when the guardian is gone.
std::size_t end_descendants(pid_t root);

/// All descendants of `root`, from one reading of /proc.
[[nodiscard]] std::vector<pid_t> descendants(pid_t root);

/// Drops every capability of the calling thread: effective, permitted, inheritable, ambient; with CAP_SETPCAP also
/// bounding, and securebits NOROOT locked. Idempotent.
[[nodiscard]] boost::system::result<void> drop_capabilities();

}  // namespace callgate::agent
