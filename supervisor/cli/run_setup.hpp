// A run up to its command: what the options, the rules and this machine say is worked out, and guardian and
// agent are forked and arm themselves meanwhile; or later, in a process that was forked for one run.
//
// Throws Failure, or another std::exception, where the run cannot be. Destroyed unused, it leaves nothing.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "rules/model/limits.hpp"
#include "supervisor/run/launch.hpp"
#include "supervisor/host/change_watch.hpp"
#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/host/host_snapshot.hpp"
#include "supervisor/run/run.hpp"

namespace callgate::cli {

/// Used by the main thread, once, while there is no other. The config is the caller's: what a failure reports
/// stands there.
class RunSetup {
public:
    explicit RunSetup(SessionConfig& config) : config_(config) {}

    /// Everything that the command, its environment and its limits have no part in; the agent then arms
    /// itself.
    void prepare(const Arguments& arguments);
    /// The same but for guardian and agent: nothing is made yet that belongs to one run. Notes in `facts`
    /// what it rests on, with what lies at the granted paths.
    void work_out(const Arguments& arguments, HostSnapshot& facts);
    /// The rest of `prepare`, after `work_out`, in this process or one that it forked: a run of its own name,
    /// in the private directory that the rules name. Notes that one in `facts`.
    void begin(HostSnapshot& facts);
    /// The command's environment, with these variables of callgate's besides its own, and where it is found.
    void set_environment(const Arguments& arguments, std::span<const std::string> variables = {});
    /// The limits that these options state, in place of those that `prepare` was given.
    void set_limits(const Arguments& arguments);
    /// What answers the command's calls is made already: there are threads from here on.
    void make_ready();
    /// Tells the agent its command already, with all that was set; it begins nothing before `run`.
    void tell_command() { begun_->tell_command(config_); }
    /// Becomes readable where guardian or agent end before they were told anything.
    [[nodiscard]] int untimely_end() const { return begun_->guardian.events.get(); }
    /// From here on `watch` is asked about what it can cover of these facts and of the files that were looked
    /// at. As HostSnapshot::cover.
    [[nodiscard]] bool cover(HostSnapshot& facts, ChangeWatch& watch);
    /// Whether `prepare` with the same options would find this machine as it was, by these facts. `quiet`: of
    /// what is covered nothing has changed since it was still true.
    [[nodiscard]] bool still_true(const Arguments& arguments, const HostSnapshot& facts,
                                  bool quiet = false) const;
    /// The process ends with the run, and with callgate's exit status.
    [[noreturn]] void run();

private:
    void choose(const Arguments& arguments);
    void prepare_rules();
    void set_rules(const Arguments& arguments);
    void note_objects(const Arguments& arguments, HostSnapshot& facts) const;

    SessionConfig& config_;
    Platform platform_;
    Places places_;
    rules::Environment environment_;  // what the rules want of it
    rules::Limits limits_;            // what they say of limits
    std::unique_ptr<RealFileTree> tree_;
    std::optional<CompiledPolicy> armour_;  // once it was worked out for later runs
    std::unique_ptr<Launch> begun_;
    std::shared_ptr<Run> session_;
};

}  // namespace callgate::cli
