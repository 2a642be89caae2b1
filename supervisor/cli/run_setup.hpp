// A run up to its command: what the options, the rules and this machine say is worked out, and guardian and
// agent are forked and arm themselves meanwhile.
//
// Throws Failure, or another std::exception, where the run cannot be. Destroyed unused, it leaves nothing.
#pragma once

#include <memory>
#include <string>

#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/run/launch.hpp"
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
    /// The command's environment, and where the command is found.
    void set_environment(const Arguments& arguments);
    /// The process ends with the run, and with callgate's exit status.
    [[noreturn]] void run();

private:
    void choose(const Arguments& arguments);
    void set_rules(const Arguments& arguments);

    SessionConfig& config_;
    Platform platform_;
    Places places_;
    rules::Environment environment_;  // what the rules want of it
    std::unique_ptr<RealFileTree> tree_;
    std::unique_ptr<Launch> begun_;
    std::shared_ptr<Run> session_;
};

}  // namespace callgate::cli
