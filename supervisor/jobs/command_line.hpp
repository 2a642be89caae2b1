// A job as a command line of `callgate run`: the one way to run anything.
//
// What the command line of `callgate exec` says of the rules holds for every job; a job that brings rules of
// its own is then refused, so that it is never a question whose policy it is. Denials and limits of both
// hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "supervisor/jobs/job.hpp"

namespace callgate::jobs {

/// Where the run writes its report, and reads rules that are too long for an argument.
inline constexpr int report_descriptor = 3, rules_descriptor = 5;

/// CALLGATE_SETENV_NAME=value sets NAME for the command of a run, whatever the value holds.
inline constexpr std::string_view variable_prefix = "CALLGATE_SETENV_";

/// What `callgate exec` was told for all of its jobs.
struct Settings {
    std::vector<std::string> options;  // of `callgate run`, but for what follows
    rules::Limits limits;
    std::optional<std::chrono::milliseconds> grace;
    std::uint64_t max_output = default_output;
    /// An option that says what is allowed: "--profile"; "" where there is none.
    std::string policy;
    bool workdir = false, cwd = false;  // are among the options
    bool compat = false;
};

struct CommandLine {
    std::vector<std::string> words;        // as after `callgate run`
    std::vector<std::string> environment;  // "NAME=value": what is passed on
    std::vector<std::string> variables;    // of the job, besides those
    std::string rules;                     // to be read from `rules_descriptor`; "" nothing
};

/// Why the settings do not let this job say what it says; "" where they do.
[[nodiscard]] std::string conflict(const Job& job, const Settings& settings);

/// What of callgate's own environment a run gets.
[[nodiscard]] std::vector<std::string> passed_on(const std::vector<std::string>& environment);

/// `environment` is callgate's own. Values of a job's variables go that way, not among the words: those any
/// user of the machine can read.
[[nodiscard]] CommandLine command_line(const Job& job, const Settings& settings,
                                       const std::vector<std::string>& environment);

}  // namespace callgate::jobs
