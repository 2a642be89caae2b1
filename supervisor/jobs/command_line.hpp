// A job as a command line of `callgate run`, which is the only way to run anything.
//
// Rules on the command line of `callgate exec` hold for every job. A job that brings rules of its own is then
// refused, so that there is never a question whose policy holds. Denials and limits of both hold.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.hpp"
#include "supervisor/jobs/job.hpp"

namespace callgate::jobs {

/// The run writes its report to `report_descriptor`, and reads rules that no argument can hold from
/// `rules_descriptor`.
inline constexpr int report_descriptor = 3, rules_descriptor = 5;

/// CALLGATE_SETENV_NAME=value sets NAME for the command of a run, whatever bytes the value holds.
inline constexpr std::string_view variable_prefix = "CALLGATE_SETENV_";

/// The command line of `callgate exec`: it holds for all of its jobs.
struct Settings {
    std::vector<std::string> options;  // of `callgate run`, without those that follow
    rules::Limits limits;
    std::optional<std::chrono::milliseconds> grace;
    std::uint64_t max_output = default_output;
    std::size_t jobs = 1;  // that run at a time
    /// The first option that allows something, such as "--profile"; "" where there is none.
    std::string policy;
    bool workdir = false, cwd = false;  // are among the options
    /// The work directory of a job lies there or beneath. Senders of jobs choose it, and with it what
    /// `${workdir}` in a policy means. "": none may be named; nothing: anywhere.
    std::optional<std::string> beneath;
    bool compat = false;
};

struct CommandLine {
    std::vector<std::string> words;        // as after `callgate run`
    std::vector<std::string> environment;  // "NAME=value", from callgate's own
    std::vector<std::string> variables;    // "NAME=value", added for the job
    std::string rules;                     // to be read from `rules_descriptor`; "" nothing
};

/// Fails if the settings do not allow a member of this job.
[[nodiscard]] Expected<void> check_allowed(const Job& job, const Settings& settings);

/// The part of callgate's own environment that a run gets.
[[nodiscard]] std::vector<std::string> passed_on(const std::vector<std::string>& environment);

/// `environment` is callgate's own. Values of a job's variables become variables and not words, which every
/// user of the machine can read.
[[nodiscard]] CommandLine command_line(const Job& job, const Settings& settings,
                                       const std::vector<std::string>& environment);

}  // namespace callgate::jobs
