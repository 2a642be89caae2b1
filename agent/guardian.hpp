// The guardian: child subreaper of the whole tree, parent of the command, never confined.
//
// It ends every descendant when the supervisor is gone (its end of `orders` closes), passes signals on,
// reaps, and tells the supervisor what became of the command. The target cannot signal, trace or limit it
// (Landlock scopes and the filter). It leads a session of its own with all signals blocked, while the command
// stays in callgate's process group; or, where the run has a terminal of its own, is that session's
// foreground group.
#pragma once

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/process/capabilities.hpp"
#include "agent/landlock.hpp"
#include "agent/created_ipc.hpp"
#include "base/process/processes.hpp"
#include "agent/protocol.hpp"
#include "agent/report_target.hpp"
#include "agent/shared_text.hpp"
#include "base/process/signals.hpp"
#include "agent/terminal.hpp"
#include "base/unique_fd.hpp"

namespace callgate::agent {

struct Limit {
    int resource = 0;  // RLIMIT_*
    rlimit value{};
};

enum class Background : std::uint8_t { end, wait };

/// What guardian and agent are given as they are forked, before it is known what the agent is to become.
struct GuardianConfig {
    explicit GuardianConfig(const SignalState& inherited) : signals(inherited) {}

    SignalState signals;         // what the command inherits
    UniqueFd working_directory;  // O_PATH; the command starts there
    std::vector<int> pass;       // descriptors beyond 0..2 that stay open
    RunTerminal terminal;        // of the run's own; then the guardian leads its session
    bool keep_capabilities = false;
    Background background = Background::end;
    /// What the run leaves of these the guardian removes if the supervisor is gone; null: nothing.
    const CreatedIpc* created_ipc = nullptr;
    /// Made by the guardian (0700, and never one that is there already) before there is a command, and
    /// removed by it, with what it then holds, when nothing of the tree is left. "": none.
    std::string temporary_directory;
    /// Whether the guardian stays after `ended` until it is dismissed: an end of `orders` before that means
    /// that the supervisor is gone, and what it leaves is cleaned up.
    bool await_dismissal = false;
    /// Files of the supervisor's that are removed if it is lost.
    std::vector<std::string> supervisor_files;
    /// Where a report is written if the supervisor is lost (null: none is), and what it then says.
    const ReportTarget* report = nullptr;
    const SharedText* lost_report = nullptr;
};

/// What the agent becomes, once it is confined (agent/blueprint).
struct CommandSpec {
    std::vector<std::string> command;      // argv
    std::vector<std::string> environment;  // "NAME=value"
    /// Candidates for execve in PATH order, absolute; tried until one is not ENOENT/ENOTDIR/EACCES, as
    /// execvpe does.
    std::vector<std::string> executables;
    std::vector<Limit> limits;
    int nice = 0;                    // added, 0: unchanged
    std::optional<int> io_priority;  // ioprio_set value
};

struct Guardian {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd orders;  // write end
    UniqueFd events;  // read end
    /// What the agent waits for: ruleset, filter and blueprint, and after `confined` one byte that says that the
    /// listener was taken. Closing it ends the agent.
    UniqueFd go;  // write end
    /// Where the listener comes before `confined`, if it cannot be taken (agent/handover).
    UniqueFd handover;
};

/// Forks the guardian, which forks the agent. Single-threaded callers only, in the base domain already; both
/// drop their capabilities themselves. Early, while the process is small: forks copy what there is. Nothing
/// of `guarding` need outlive the call. Errors: errno of pipe2, socketpair, fork, pidfd_open; EBADF where a
/// descriptor of `pass` is not open. The caller reaps `pid`; its exit status is 0 where nothing of the
/// temporary directory is left.
[[nodiscard]] boost::system::result<Guardian> start_guardian(const GuardianConfig& guarding);

/// Tells the agent what to make its Landlock domain of (null: it enters none), after the guardian's `ready`:
/// the run's private directory may be granted. The agent makes the ruleset meanwhile; the filter follows.
/// Where nobody reads that any more (EPIPE, so SIGPIPE must be ignored or blocked) the next event says why.
/// Errors: errno of write.
[[nodiscard]] boost::system::result<void> send_ruleset(const Guardian& guardian,
                                                       const RulesetParts* landlock);

/// Tells the agent its filter (empty: none). It arms itself then, whenever its command comes. The same holds.
[[nodiscard]] boost::system::result<void> send_filter(const Guardian& guardian,
                                                      std::span<const sock_filter> filter);

/// Tells the agent everything else; it then says that it is confined. The same holds.
[[nodiscard]] boost::system::result<void> send_command(const Guardian& guardian, const CommandSpec& arming);

}  // namespace callgate::agent
