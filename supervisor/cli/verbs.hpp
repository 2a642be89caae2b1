// The verbs. Each gets its parsed arguments and returns callgate's exit status; wrong use throws Failure.
#pragma once

#include "supervisor/cli/arguments.hpp"
#include "supervisor/run/notices.hpp"

namespace callgate::cli {

[[nodiscard]] int run(const Arguments& arguments);
[[nodiscard]] int run_with(const Arguments& arguments, const RunNotices& notices);
[[nodiscard]] int learn(const Arguments& arguments);
[[nodiscard]] int check(const Arguments& arguments);
[[nodiscard]] int explain(const Arguments& arguments);
[[nodiscard]] int plan(const Arguments& arguments);
[[nodiscard]] int audit_log(const Arguments& arguments);
[[nodiscard]] int profiles(const Arguments& arguments);
[[nodiscard]] int doctor(const Arguments& arguments);
[[nodiscard]] int approve(const Arguments& arguments);
[[nodiscard]] int ps(const Arguments& arguments);
[[nodiscard]] int stop(const Arguments& arguments);
[[nodiscard]] int grants(const Arguments& arguments);
[[nodiscard]] int revoke(const Arguments& arguments);
[[nodiscard]] int rules_verb(const Arguments& arguments);
[[nodiscard]] int exec(const Arguments& arguments);
[[nodiscard]] int request(const Arguments& arguments);
[[nodiscard]] int mcp(const Arguments& arguments);
[[nodiscard]] int agent(const Arguments& arguments);
/// `callgate run` for a job that is still to come: jobs::warm_word, which is no verb of the user's.
[[nodiscard]] int run_warm();
[[nodiscard]] int completion(const Arguments& arguments);

/// Names of NAME.json in the user's profile directory, sorted.
[[nodiscard]] std::vector<std::string> own_profiles(const std::string& directory);
/// The numbers of a run's grants; none if the run does not answer.
[[nodiscard]] std::vector<std::string> grant_numbers(const std::string& run);

/// The help of one verb, at most 80 columns wide.
[[nodiscard]] std::string help(const VerbSpec& verb);
/// The help of the program.
[[nodiscard]] std::string help();

/// The whole program; `words` follow its name. Catches everything; returns the exit status.
[[nodiscard]] int dispatch(std::vector<std::string> words) noexcept;

}  // namespace callgate::cli
