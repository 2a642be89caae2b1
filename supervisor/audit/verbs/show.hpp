// The audit log for people: `callgate audit show`, `tail`, `summary`, `ls`, `last`.
//
// Reads logs and writes text; owns nothing. The log is hostile: the target, or a forger of the file, chose
// its paths, arguments and rule names. So all output is escaped for a terminal, and memory is bounded. A
// malformed line is an error with its number, never more.
//
// Each verb returns callgate's exit status (docs/cli.md). 0 is good, 1 is a finding (malformed lines), 125 is
// wrong use (no such log, bad filter). Wrong use prints one line on `errors`, without prefix.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "base/expected.hpp"

namespace callgate::audit {

/// Exit statuses of docs/cli.md.
inline constexpr int exit_finding = 1, exit_wrong_use = 125;

/// Chooses a log. `log` is a path, a run ("k3f9"), or "" for the newest in `state` (Places::state).
struct LogChoice {
    std::string state{};
    std::string log{};
};

/// Chooses records. "" stands for any; all stated conditions must hold. Records that are not decisions
/// (run.start, ...) are shown only if no condition but the times is stated.
struct Filter {
    std::string verdict{};    // allow, ask, deny, kill
    std::string operation{};  // read, modify, ... ; "write" means its four
    std::string rule{};       // id, or "default"
    std::string object{};     // glob on path, "203.0.113.4:443" or "@name"; here a star crosses '/'
    std::string program{};    // glob on the executable
    std::string tree{};       // "4312" or "4312@88123": this process and its descendants on record
    /// "2026-11-20", "2026-11-20T10:11", "…:12", with fraction and zone (without one: UTC), or a time span
    /// before now: "10m", "2h".
    std::string since{}, until{};
};

struct ShowOptions {
    LogChoice log{};
    Filter filter{};
    bool json = false;    // print the lines as they are in the log
    bool colour = false;  // see colour_wanted
};

struct TailOptions {
    ShowOptions show{};
    std::size_t lines = 10;
    bool follow = false;  // until the run's end is on record
};

struct SummaryOptions {
    LogChoice log{};
    Filter filter{};
    std::string by = "rule";  // rule, object, program, host
    bool json = false;
};

struct ListOptions {
    std::string state{};
    bool json = false;
};

/// True for a terminal, unless NO_COLOR is set and not empty (no-color.org).
[[nodiscard]] bool colour_wanted(int descriptor);

/// The path of the log that `choice` means. Fails if there is none.
[[nodiscard]] Expected<std::string> find_log(const LogChoice& choice);

[[nodiscard]] int show(std::ostream& out, std::ostream& errors, const ShowOptions& options);
[[nodiscard]] int tail(std::ostream& out, std::ostream& errors, const TailOptions& options);
[[nodiscard]] int summary(std::ostream& out, std::ostream& errors, const SummaryOptions& options);
/// Lists the logs in the state directory, newest first: run, time, command, counts.
[[nodiscard]] int list(std::ostream& out, std::ostream& errors, const ListOptions& options);
/// Prints the path of the newest log.
[[nodiscard]] int last(std::ostream& out, std::ostream& errors, const std::string& state);

}  // namespace callgate::audit
