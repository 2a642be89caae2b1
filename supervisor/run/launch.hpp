// How a run begins: guardian and agent are forked while callgate is still small and has read no rule, and
// wait until they are told what to do.
//
// Forks copy what there is, and two processes arm themselves while this one reads the rules: so this is done
// as early as it is known what both are to inherit. What is forked sits in the base Landlock domain already
// (architecture.md, invariant 7). Single-threaded until the run's own threads begin.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/guardian.hpp"
#include "supervisor/enforce/landlock/recipe.hpp"
#include "agent/created_ipc.hpp"
#include "supervisor/calls/files/cross_directory_rename.hpp"
#include "supervisor/run/run.hpp"

namespace callgate {

/// A run that cannot start: one line for the user, exit 125.
struct SetupError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[nodiscard]] std::string because(int error);

template <class T>
T require(boost::system::result<T> result, const std::string& what) {
    if (!result) throw SetupError(what + ": " + because(result.error().value()));
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// A copy of a descriptor that was given by number. Throws SetupError, which names `option`.
[[nodiscard]] UniqueFd copy_descriptor(int descriptor, const char* option);

/// What an agent arms itself with, for a plan that outlives this.
struct CompiledPolicy {
    explicit CompiledPolicy(const rules::Plan& plan);

    enforce::RulesetRecipe landlock;
    std::vector<sock_filter> filter;
};

class Launch {
public:
    /// The calling process enters the base domain, then guardian and agent are forked; where the run perhaps
    /// gets a terminal of its own, that is left to `fork_guardian`.
    /// Throws SetupError.
    explicit Launch(const SessionConfig& config);
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;
    /// Ends both, where no run has followed.
    ~Launch();

    void fork_guardian(const SessionConfig& config);
    [[nodiscard]] bool forked() const { return guardian.pid > 0; }
    /// What the guardian reports in our place, if we are lost from here on; where a report is wanted.
    void set_lost_report(std::string_view text) { lost_report_.value().set(text); }
    /// Tells the agent its Landlock domain and its filter; it arms itself while the rest is worked out. Of
    /// `config` the plan must be known.
    void arm(const SessionConfig& config);
    /// The same with what was worked out from that plan before.
    void arm(const SessionConfig& config, const CompiledPolicy& armour);
    /// Tells the agent, once it was told to arm itself, its limits and what it becomes; once, however often
    /// it is called.
    void tell_command(const SessionConfig& config);
    /// The listener, when the agent is confined and knows its command; it then waits to be let go.
    [[nodiscard]] UniqueFd take_listener(const SessionConfig& config);
    void let_go();

    /// The guardian ends what there is of the tree, if it has not yet, and is reaped. False where it was
    /// killed, or could not remove the run's private directory.
    bool dismiss_and_reap();
    /// The same for one that was dismissed.
    bool reap();

    agent::Guardian guardian;
    pid_t agent = -1;                                 // once it is confined
    agent::SharedObjects made;                        // what the run makes outside every file system
    std::unique_ptr<calls::CrossDirectoryRename> cross_directory_rename;  // where Landlock needs it
    agent::ReportTarget report;                        // --report

private:
    void tell_domain(const SessionConfig& config, const enforce::RulesetRecipe& landlock);
    void tell_filter(std::span<const sock_filter> filter);
    /// The next of the guardian's events, which is to be this one.
    agent::Event expect(agent::Event::Kind kind, const SessionConfig& config) const;
    agent::Event next_event() const;
    void stop_with_agent(pid_t stopped) const;

    std::optional<agent::SharedText> lost_report_;
    std::string temporary_directory_;  // the run's, which the guardian makes
    bool told_ = false;                // the agent knows what it becomes
};

}  // namespace callgate
