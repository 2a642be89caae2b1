// A run up to its command: what the options, the rules and this machine say is worked out, and guardian and
// agent are forked and arm themselves meanwhile.
//
// Throws Failure, or another std::exception, where the run cannot be. Destroyed unused, it leaves nothing.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "rules/limits.hpp"
#include "supervisor/beginning.hpp"
#include "supervisor/change_watch.hpp"
#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/machine.hpp"
#include "supervisor/machine_facts.hpp"
#include "supervisor/session.hpp"

namespace callgate::cli {

/// Used by the main thread, once, while there is no other. The config is the caller's: what a failure reports
/// stands there.
class Starting {
public:
    explicit Starting(SessionConfig& config) : config_(config) {}

    /// Everything that the command, its environment and its limits have no part in; the agent then arms
    /// itself. Where facts are noted (supervisor/machine_facts), what lies at the granted paths is noted,
    /// too.
    void prepare(const Arguments& arguments);
    /// The command's environment, with these variables of callgate's besides its own, and where it is found.
    void set_environment(const Arguments& arguments, std::span<const std::string> variables = {});
    /// The limits that these options state, in place of those that `prepare` was given.
    void set_limits(const Arguments& arguments);
    /// Tells the agent its command already, with all that was set; it begins nothing before `run`.
    void tell_command() { begun_->tell_command(config_); }
    /// Becomes readable where guardian or agent end before they were told anything.
    [[nodiscard]] int untimely_end() const { return begun_->guardian.events.get(); }
    /// From here on `watch` is asked about what it can cover of these facts and of the files that were looked
    /// at.
    void cover(MachineFacts& facts, ChangeWatch& watch);
    /// Whether `prepare` with the same options would find this machine as it was, by these facts. `quiet`: of
    /// what is covered nothing has changed since it was still true.
    [[nodiscard]] bool still_true(const Arguments& arguments, const MachineFacts& facts,
                                  bool quiet = false) const;
    /// The process ends with the run, and with callgate's exit status.
    [[noreturn]] void run() { run_session(std::move(begun_), std::move(config_)); }

private:
    void set_rules(const Arguments& arguments);
    void note_objects(const Arguments& arguments, MachineFacts& facts) const;

    SessionConfig& config_;
    Platform platform_;
    Places places_;
    rules::Environment environment_;  // what the rules want of it
    rules::Limits limits_;            // what they say of limits
    std::unique_ptr<RealFileTree> tree_;
    std::unique_ptr<Beginning> begun_;
};

}  // namespace callgate::cli
