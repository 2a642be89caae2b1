// The values that a run is made from, one type per phase.
//
// `Request` holds what options and host say before any rule is read. `Compiled` holds what the rules make of
// it. `Command` holds what the agent becomes. Each is complete when it is made, and does not change. A
// function that needs the plan takes a `Compiled`. All of it is trusted: the target chooses none of these
// values.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/guardian.hpp"
#include "base/process/capabilities.hpp"
#include "base/process/signals.hpp"
#include "base/unique_fd.hpp"
#include "rules/load/load_snapshot.hpp"
#include "rules/match/rule_set.hpp"
#include "rules/model/agent.hpp"
#include "rules/model/limits.hpp"
#include "rules/plan/plan.hpp"
#include "supervisor/approval/approval_service.hpp"
#include "supervisor/audit/write/outcome.hpp"
#include "supervisor/audit/write/signature.hpp"

namespace callgate::nested {
class OuterRun;
}

namespace callgate {

/// Between SIGTERM and the end of the tree.
inline constexpr std::chrono::milliseconds usual_grace{2000};

/// The target of the audit log.
struct AuditTarget {
    enum class Kind : std::uint8_t { directory, file, descriptor, none };
    Kind kind = Kind::directory;
    std::string path;
    int descriptor = -1;
    std::optional<audit::SigningKey> key;
    std::optional<std::uint64_t> limit;  // bytes; without a value the log chooses
    bool syslog = false;                 // the system's log gets a copy of each record
};

/// The target of a report or a status line: a file, a descriptor, or nothing.
struct OutputTarget {
    std::string path;
    int descriptor = -1;
    [[nodiscard]] bool wanted() const { return !path.empty() || descriptor >= 0; }
};

/// State that callgate inherited from the process that started it. Make it before any signal is changed.
struct Caller {
    SignalState signals;
    pid_t parent = -1;

    [[nodiscard]] static Caller current() { return {SignalState::current(), ::getppid()}; }
};

/// A run as options and host describe it, before any rule is read.
struct Request {
    Caller caller;
    std::string run;                  // "k3f9a2": names log, report and mostly the private directory
    std::string workdir;              // canonical
    std::string directory;            // the command starts here (--cwd, default workdir)
    std::string temporary_directory;  // the guardian makes it; it is removed at the end
    std::string denials;              // the command reads there what was denied; removed with the directory
    std::shared_ptr<nested::OuterRun> outer;  // the run around, which judges this one's calls; null: none
    std::string home;                         // the user's; a grant never covers it as a whole
    std::string lasting_home;                 // the command's, of --home; else ""
    std::string config_home;                  // ${config}
    Mode mode = Mode::enforce;
    AuditTarget audit;
    approval::AskSettings ask;
    OutputTarget report, status;
    rules::Limits limits;  // of the options
    std::chrono::milliseconds grace = usual_grace;
    agent::Background background = agent::Background::end;
    std::vector<int> pass;
    bool plain_output = false;    // the person's terminal gets text and colours alone
    bool leave_terminal = false;  // the command gives callgate's controlling terminal up
    CapabilitySet keep_capabilities = 0;
    bool die_with_parent = false;
    int nice = 0;
    std::optional<int> io_priority;
    bool quiet = false, hints = true, verbose = false, json = false;
};

/// A request's rules, loaded and planned for this host.
struct Compiled {
    std::shared_ptr<const rules::RuleSet> rules;     // the user's
    std::shared_ptr<const rules::RuleSet> enforced;  // the same; audit mode: only callgate's own rules
    rules::Plan plan;                                // of `enforced`
    std::optional<rules::Plan> observed_plan;        // audit mode: of `rules`
    std::vector<std::string> profiles;               // names, for run.start
    std::string rules_sha256;
    rules::LoadSnapshot snapshot;  // facts that the rules took from the host
    std::vector<std::string> degraded;
    bool name_files = false;  // no room can be made: the files about name servers are handed over (names/)
    bool sni = false;         // the front checks connects by name
    rules::Limits limits;
    rules::Environment environment;
    rules::Agent agent;
    /// The person's terminal, if the run uses a terminal of its own.
    std::shared_ptr<approval::Terminal> terminal;
    /// Keeps on record that a person lets the run make links in a directory.
    approval::AuditApprovalLog::NoteTree note_tree;
    UniqueFd name_lock;  // where the runs of the user meet (calls/name_lock.hpp); invalid: nowhere
};

/// The command with everything that the agent needs to become it.
struct Command {
    std::vector<std::string> words;        // argv
    std::vector<std::string> environment;  // final, "NAME=value"
    std::vector<std::string> held_back;    // names of variables that hold a credential and were not passed
    std::vector<std::string> not_passed;   // names of the other variables that were not passed
    std::vector<std::string> agents_own =
        {};                                // names of those that the agent has, and nothing that it executes
    std::vector<std::string> exposed;      // names of passed proxies whose URL holds a password
    std::vector<std::string> executables;  // absolute candidates in PATH order (agent::CommandSpec)
    rules::Limits limits;                  // the tighter of options and rules
    std::optional<audit::FileIdentity> agent = {};  // the command's program, if it is the agent
};

}  // namespace callgate
