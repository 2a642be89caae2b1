// Launch of guardian and agent: both are forked while callgate is still small and has read no rule.
//
// A fork copies the memory of its parent, so an early fork is a cheap one. Both children confine themselves
// while this process reads the rules. They sit in the base Landlock domain from the start
// (docs/dev/architecture.md, invariant 7).
//
// The types give the order. Only a `Launch` forks. Only its `confine`, which needs a `Compiled`, makes a
// `Launched`. Only a `Launched` takes a command and gives the listener. Everything here happens on the main
// thread, before the run's own threads exist.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/created_ipc.hpp"
#include "agent/guardian.hpp"
#include "agent/report_target.hpp"
#include "agent/shared_text.hpp"
#include "supervisor/calls/files/cross_directory_rename.hpp"
#include "supervisor/enforce/refused_calls.hpp"
#include "supervisor/run/denials_file.hpp"
#include "supervisor/run/request.hpp"
#include "supervisor/run/setup_error.hpp"

namespace callgate {

/// Guardian and agent of one run, with everything that they share with the supervisor. Destroyed before the
/// run has ended, it ends both and removes the private directory and the list of denials.
class Launched {
public:
    Launched(agent::SharedObjects made, agent::SharedObjects nested, agent::ReportTarget report,
             const Request& request);
    Launched(const Launched&) = delete;
    Launched& operator=(const Launched&) = delete;
    ~Launched();

    /// Text that the guardian writes as the report if callgate is lost. Needs a wanted report.
    void set_lost_report(std::string_view text) { lost_report_.value().set(text); }
    /// Sends the agent its limits and its command, once. The agent then confines itself and waits.
    void send_command(const Request& request, const Command& command);
    /// Waits until the agent is confined and knows its command.
    void await_confined();
    /// The listener, when the agent is confined and knows its command; it then waits for `let_go`.
    [[nodiscard]] UniqueFd take_listener();
    void let_go();

    /// Tells the guardian that the supervisor cleans up and reports itself.
    void dismiss() const;
    /// Tells the guardian to end what is left of the tree, and reaps it. False if the guardian was killed or
    /// could not remove the private directory.
    bool dismiss_and_reap();
    /// Reaps a guardian that was dismissed already; the same result.
    bool reap();
    /// Ends the tree of a killed guardian, and reaps it: its orphans went to the next subreaper, which is
    /// this process. A control group can be removed only then.
    static void end_orphans();

    agent::Guardian guardian;     // pid -1: not forked, or reaped
    pid_t agent = -1;             // valid once the listener was taken
    agent::SharedObjects made;    // IPC objects and control groups that the run makes
    agent::SharedObjects nested;  // IPC objects that nested runs make
    std::unique_ptr<calls::CrossDirectoryRename> cross_directory_rename;  // Landlock ABI 1 only
    agent::ReportTarget report;                                           // --report
    std::optional<DenialsFile> denials;  // what was denied, for the command; after `fork_guardian`
    enforce::RefusedCalls refused;       // of the filter: refusals that are notified and put on record

private:
    friend class Launch;
    /// Reads the guardian's next event, which must be of this kind.
    agent::Event expect(agent::Event::Kind kind) const;
    void await_event() const;
    agent::Event next_event() const;
    void stop_with_agent(pid_t stopped) const;

    std::optional<agent::SharedText> lost_report_;
    std::string temporary_directory_, denials_name_;
    const Request& request_;  // outlives the launch
};

/// A run before its rules are compiled.
class Launch {
public:
    /// Opens the report and enters the base domain. Throws SetupError.
    explicit Launch(const Request& request);

    /// Forks guardian and agent. `terminal` is null if the run has no terminal of its own. Throws SetupError.
    void fork_guardian(const Request& request, const approval::Terminal* terminal);

    /// Sends the agent its Landlock domain and its filter, after `fork_guardian`. The agent opens its ruleset
    /// while the filter is compiled here. Throws SetupError.
    [[nodiscard]] std::unique_ptr<Launched> confine(const Compiled& compiled) &&;

private:
    [[nodiscard]] std::unique_ptr<Launched> nest(const Compiled& compiled);

    std::unique_ptr<Launched> run_;
};

}  // namespace callgate
