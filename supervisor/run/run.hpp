// One run, wired together: guardian, listener, receivers, event loop, audit log, report.
//
// Owns everything that lives as long as the run. What follows is called once per process, on the main thread,
// which is the only one until then.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/guardian.hpp"
#include "rules/model/limits.hpp"
#include "rules/plan/plan.hpp"
#include "rules/match/rule_set.hpp"
#include "rules/load/load_snapshot.hpp"
#include "supervisor/approval/approval_service.hpp"
#include "supervisor/approval/terminal/terminal.hpp"
#include "supervisor/audit/write/signature.hpp"

namespace callgate {

enum class Mode : std::uint8_t { enforce, audit };

/// Where the audit log goes.
struct AuditTarget {
    enum class Kind : std::uint8_t { directory, file, descriptor, none };
    Kind kind = Kind::directory;
    std::string path;
    int descriptor = -1;
    std::optional<audit::SigningKey> key;
    /// A copy of each record goes to the system's log.
    bool syslog = false;
};

/// Where a report or a status line goes: nothing, a file, or a descriptor.
struct OutputTarget {
    std::string path;
    int descriptor = -1;
    [[nodiscard]] bool wanted() const { return !path.empty() || descriptor >= 0; }
};

struct SessionConfig {
    std::string run;  // "k3f9a2": made by the caller, names log and report, and mostly the private directory
    /// What the command inherits of signals: make the config before changing any.
    SignalState signals = SignalState::current();
    pid_t parent = ::getppid();  // who started callgate
    std::vector<std::string> command;
    std::vector<std::string> environment;  // final, "NAME=value"
    std::vector<std::string> held_back;    // names of variables that hold a credential and were not passed
    std::vector<std::string> executables;  // absolute candidates in PATH order (agent::CommandSpec)
    std::string workdir;                   // canonical
    std::string directory;                 // where the command starts (--cwd, default workdir)
    std::string temporary_directory;       // made when nothing else can fail any more; removed at the end
    std::shared_ptr<const rules::RuleSet> rules;
    rules::Plan plan;
    std::vector<std::string> profiles;  // names, for run.start
    std::string rules_sha256;
    rules::LoadSnapshot surroundings;  // what the rules took from the machine
    std::string config_home;           // what ${config} stands for
    std::vector<std::string> degraded;
    rules::Limits limits;  // already merged with the options
    Mode mode = Mode::enforce;
    /// Audit mode: `rules` are observed alone; what holds are these, and `plan` is theirs (make_audit_plan).
    std::shared_ptr<const rules::RuleSet> enforced;
    rules::Plan observed_plan;  // of `rules`
    AuditTarget audit;
    approval::AskSettings ask;
    std::string home;                              // never what a grant covers
    std::shared_ptr<approval::Terminal> terminal;  // --ask tty, or auto where there is one
    bool perhaps_terminal = false;                 // it is kept only where the rules ask (set_rules)
    OutputTarget report, status;
    /// Called when the command begins; may be null.
    std::function<void()> begun;
    /// Called with the exit status when nothing is left to do but to end this process and its guardian's; may
    /// be null.
    std::function<void(int)> ended;
    agent::Background background = agent::Background::end;
    std::chrono::milliseconds grace{2000};
    std::vector<int> pass;
    bool keep_capabilities = false;
    bool die_with_parent = false;
    int nice = 0;
    std::optional<int> io_priority;
    bool quiet = false, hints = true, verbose = false, json = false;
};

class Launch;
/// Forks what can wait for the rules. Of `config` everything must be known but rules, plan, environment and
/// what follows from them. Throws what cannot be (std::exception). Destroyed unused, it leaves nothing.
[[nodiscard]] std::unique_ptr<Launch> begin_run(const SessionConfig& config);

/// One run. Of `config` and `begun`, which outlive it, whatever concerns the command itself may still be
/// missing.
class Run;
[[nodiscard]] std::shared_ptr<Run> make_session(Launch& begun, SessionConfig& config);
/// What answers the command's calls is made now, and not when the command is known. Throws std::exception.
void make_ready(Run& session);
/// Runs the command, and ends the process with callgate's exit status (cli.md): nothing of who called is
/// taken down. Never throws; its own failures are one line on stderr and 125.
[[noreturn]] void run_session(Run& session);

/// "cannot make the run's private directory ...": what went wrong and what helps.
[[nodiscard]] std::string no_private_directory(const std::string& path, int error);

}  // namespace callgate
