// The guardian: child subreaper of the whole tree, parent of the command, never confined.
//
// It ends every descendant when the supervisor is gone (its end of `orders` closes). It forwards signals,
// reaps, and reports the command's end to the supervisor. It keeps the run's deadline, and continues a
// supervisor that has stopped with its command. The target cannot signal, trace or limit it
// (Landlock scopes and the filter). It leads a session of its own with all signals blocked, while the command
// stays in callgate's process group. If the run has a terminal of its own, the guardian leads that session
// and the command is its foreground group.
//
// From Landlock ABI 6 on it enters a domain of its own before it forks the agent. There a signal to all
// (kill(-1)) reaches exactly its descendants, and ends a tree at once that forks faster than /proc is read.
// Elsewhere, and within a run, it finds them in /proc. It reads /proc in any case until none is left.
#pragma once

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/created_ipc.hpp"
#include "agent/landlock.hpp"
#include "agent/protocol.hpp"
#include "agent/report_target.hpp"
#include "agent/shared_text.hpp"
#include "agent/terminal.hpp"
#include "base/process/capabilities.hpp"
#include "base/process/processes.hpp"
#include "base/process/signals.hpp"
#include "base/unique_fd.hpp"

namespace callgate::agent {

struct Limit {
    int resource = 0;  // RLIMIT_*
    rlimit value{};
};

enum class Background : std::uint8_t { end, wait };

/// Settings of guardian and agent at the fork, before the command is known.
struct GuardianConfig {
    explicit GuardianConfig(const SignalState& inherited) : signals(inherited) {}

    SignalState signals;         // inherited by the command
    UniqueFd working_directory;  // O_PATH; the command starts there
    std::vector<int> pass;       // descriptors beyond 0..2 that stay open
    RunTerminal terminal;        // the run's own terminal; the guardian leads its session
    CapabilitySet keep_capabilities = 0;
    /// A nested run: the agent installs a filter without a listener, and enters by a token (send_token).
    bool nested = false;
    Background background = Background::end;
    std::chrono::milliseconds grace{2000};  // between the deadline and the end of the tree
    /// The guardian removes the remaining objects of this list if the supervisor is gone; null: none.
    const CreatedIpc* created_ipc = nullptr;
    /// The same of nested runs, which the supervisor makes for them.
    const CreatedIpc* nested_ipc = nullptr;
    /// The run's private directory; "": none. The guardian makes it (mode 0700) before there is a command,
    /// and fails if it exists already. The guardian removes it with its contents when no process of the tree
    /// is left.
    std::string temporary_directory;
    /// A file that the guardian removes with that directory; "": none.
    std::string denials;
    /// True: the guardian stays after `ended` until it is dismissed. If `orders` closes before that, the
    /// supervisor is gone, and the guardian cleans up in its place.
    bool await_dismissal = false;
    /// Files of the supervisor that the guardian removes if the supervisor is lost.
    std::vector<std::string> supervisor_files;
    /// Target and text of the report that the guardian writes if the supervisor is lost; null: no report.
    const ReportTarget* report = nullptr;
    const SharedText* lost_report = nullptr;
};

/// The command that the agent becomes once it is confined (agent/launch_message).
struct CommandSpec {
    std::vector<std::string> command;      // argv
    std::vector<std::string> environment;  // "NAME=value"
    /// Candidates for execve in PATH order, absolute. Like execvpe, the agent tries the next one after
    /// ENOENT, ENOTDIR or EACCES.
    std::vector<std::string> executables;
    std::vector<Limit> limits;
    int nice = 0;                    // added to the current value
    std::optional<int> io_priority;  // ioprio_set value
};

struct Guardian {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd orders;  // write end
    UniqueFd events;  // read end
    /// The launch messages (ruleset, filter, command), and after `confined` one byte: the listener was taken.
    /// Closing it ends the agent.
    UniqueFd go;  // write end
    /// The listener arrives here before `confined`, if it cannot be taken (agent/handover).
    UniqueFd handover;
};

/// Forks the guardian, which forks the agent. Call it single-threaded, in the base domain; both processes
/// drop their capabilities themselves. Call it early, while the process is small: a fork copies its page
/// tables. Nothing of `config` need outlive the call. Errors: errno of pipe2, socketpair, fork, pidfd_open;
/// EBADF if a descriptor of `pass` is not open. The caller reaps `pid`; its exit status is 0 if nothing of
/// the temporary directory is left.
[[nodiscard]] boost::system::result<Guardian> start_guardian(const GuardianConfig& config);

/// Sends the parts of the Landlock domain (null: no domain). Call it after the guardian's `ready`, because
/// the run's private directory may be granted. The agent makes the ruleset meanwhile. If the reader is gone
/// (EPIPE; SIGPIPE must be ignored or blocked), the call succeeds and the next event says why. Errors: errno
/// of write.
[[nodiscard]] boost::system::result<void> send_ruleset(const Guardian& guardian,
                                                       const RulesetParts* landlock);

/// Sends the filter (empty: none). The agent then confines itself, before its command is known. Errors as
/// above.
[[nodiscard]] boost::system::result<void> send_filter(const Guardian& guardian,
                                                      std::span<const sock_filter> filter);

/// Nested runs only, after the filter: the token by which the agent enters, of `token_size` letters. Errors
/// as above.
inline constexpr std::size_t token_size = 32;
[[nodiscard]] boost::system::result<void> send_token(const Guardian& guardian, std::string_view token);

/// Sends everything else; the agent then reports `confined`. Errors as above.
[[nodiscard]] boost::system::result<void> send_command(const Guardian& guardian, const CommandSpec& spec);

}  // namespace callgate::agent
