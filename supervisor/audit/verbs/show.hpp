// The audit log for people: `callgate audit show`, `tail`, `summary`, `ls`, `last`.
//
// Reads logs and writes text; owns nothing. The log's content is hostile (paths, arguments, rule names that
// the target or a forger of the file chose): everything printed is escaped for a terminal, memory is bounded,
// and a line that is no record is an error with its number, never more. Each verb returns callgate's exit
// status (cli.md): 0 good, 1 a finding (lines that are no records), 125 wrong use (no such log, bad filter),
// said in one line on `errors` without prefix.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "base/expected.hpp"

namespace callgate::audit {

/// cli.md: a finding, wrong use.
inline constexpr int exit_finding = 1, exit_wrong_use = 125;

/// Which log: `log` is a path, a run ("k3f9"), or "" for the newest in `state` (Places::state).
struct LogChoice {
    std::string state{};
    std::string log{};
};

/// Which records. "" is any; all that are stated must hold. Records that are not decisions (run.start, ...)
/// are shown only where no filter but the times is stated.
struct Filter {
    std::string verdict{};    // allow, ask, deny, kill
    std::string operation{};  // read, modify, ... ; "write" means its four
    std::string rule{};       // id, or "default"
    std::string object{};     // glob on path, "203.0.113.4:443" or "@name"; here a star crosses '/'
    std::string program{};    // glob on the executable
    std::string tree{};  // "4312" or "4312@88123": this process and, as far as the log tells, what it started
    /// "2026-11-20", "2026-11-20T10:11", "…:12", with fraction and zone (without one: UTC), or a time span
    /// before now: "10m", "2h".
    std::string since{}, until{};
};

struct ShowOptions {
    LogChoice log{};
    Filter filter{};
    bool json = false;    // the lines as they are in the log
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

/// isatty and no NO_COLOR (no-color.org: set and not empty).
[[nodiscard]] bool colour_wanted(int descriptor);

/// The path of the log that `choice` means. Fails if there is none.
[[nodiscard]] Expected<std::string> find_log(const LogChoice& choice);

[[nodiscard]] int show(std::ostream& out, std::ostream& errors, const ShowOptions& options);
[[nodiscard]] int tail(std::ostream& out, std::ostream& errors, const TailOptions& options);
[[nodiscard]] int summary(std::ostream& out, std::ostream& errors, const SummaryOptions& options);
/// Logs in the state directory, newest first: run, time, command, counts.
[[nodiscard]] int list(std::ostream& out, std::ostream& errors, const ListOptions& options);
/// The path of the newest log.
[[nodiscard]] int last(std::ostream& out, std::ostream& errors, const std::string& state);

}  // namespace callgate::audit
