// The steps of a run up to its launch: options and host are read, rules are loaded and planned
// (run_rules.hpp), the command is looked up.
//
// Each step takes the values of the steps before it, so no step can come too early. The steps throw Failure,
// or another std::exception, if the run cannot be.
#pragma once

#include <memory>
#include <string>

#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/linked_paths.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/cli/run_terminal.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/run/report.hpp"
#include "supervisor/run/request.hpp"

namespace callgate::cli {

/// Options and host, read before any rule.
struct RequestedRun {
    Platform platform;
    Places places;
    Request request;
    TerminalChoice terminal;
    LinkedPaths linked;  // paths of options that are no rules
};
/// The run around this process, which can judge a nested one; null: there is none. Probes the platform.
/// Throws Failure if there is one that cannot be reached.
[[nodiscard]] std::shared_ptr<nested::OuterRun> find_outer_run(bool quiet, Platform& platform);

/// Fills `known` as soon as a fact is known: a failure's report has it. Makes the state directory. Names the
/// run and its private directory.
[[nodiscard]] RequestedRun read_request(const Arguments& arguments, const Caller& caller, RunFacts& known);

/// The command, its environment and its limits.
[[nodiscard]] Command make_command(const Arguments& arguments, const RequestedRun& requested,
                                   const Compiled& compiled);

/// Says what the command does not get of the environment, and which credentials it does get. Only a person is
/// told of the first, on a terminal or with -v.
void say_environment(const Request& request, const Command& command);

/// Six random characters of [a-z0-9].
[[nodiscard]] std::string random_run_name();

/// The state directory must exist before the plan is made: the plan can leave out of a hierarchy only files
/// that exist at the start. `advice` ends the messages of failures.
void make_state_directory(const std::string& state, const std::string& advice);

}  // namespace callgate::cli
