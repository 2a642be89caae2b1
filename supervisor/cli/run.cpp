// `callgate run`: a run from its command line, and what is reported where it cannot be.
#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "agent/landlock.hpp"
#include "agent/report_target.hpp"
#include "base/process/held_signals.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/run_options.hpp"
#include "supervisor/cli/run_setup.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/run/report.hpp"

namespace callgate::cli {

namespace {

[[noreturn]] void start(const Arguments& arguments, SessionConfig& config) {
    RunSetup starting(config);
    starting.prepare(arguments);
    starting.set_environment(arguments);
    starting.run();
}

/// The report is written whatever the end is, also where nothing ran.
void report_failure(const Arguments& arguments, const SessionConfig& config, const std::string& message) {
    OutputTarget target;
    try {
        target = read_output_target(arguments, "report", TargetKind::any);
    } catch (const Failure&) {
        return;  // the failure at hand is about the report itself, or comes first
    }
    if (!target.wanted() || message.starts_with("--report")) return;
    RunFacts facts;
    facts.run = config.run;
    facts.mode = config.mode == Mode::audit ? "audit" : "enforce";
    facts.workdir = config.workdir;
    facts.command = config.command;
    facts.audited = false;
    facts.landlock_abi = agent::kernel_landlock_abi();
    RunOutcome outcome;
    outcome.outcome = "setup_error";
    outcome.error = message;
    const std::string text = RunReport().json(facts, outcome, 0, "");
    agent::ReportTarget place;
    if (target.descriptor < 0)
        place = agent::open_report(target.path);
    else
        place.descriptor.reset(::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 3));
    if (!agent::write_report(place, text))
        say("the report could not be written: " + std::string(std::strerror(errno)));
}

}  // namespace

int run(const Arguments& arguments) { return run_with(arguments, {}); }

int run_with(const Arguments& arguments, const RunNotices& notices) {
    SessionConfig config;
    config.begun = notices.started;
    config.ended = notices.exited;
    config.command = arguments.rest();
    hold_signals();
    try {
        if (config.command.empty())
            throw Failure("the command is missing; usage: callgate run [OPTIONS] [--] COMMAND [ARG...]");
        if (config.command[0].empty())
            throw Failure("the command's name is empty; give the name of a program");
        start(arguments, config);
    } catch (const Failure& failure) {
        report_failure(arguments, config, failure.detail());
        throw;
    } catch (const std::exception& failure) {
        report_failure(arguments, config, failure.what());
        throw;
    }
}

}  // namespace callgate::cli
