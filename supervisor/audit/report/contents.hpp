// Everything that a report says, gathered from one log in one pass and within bounded memory.
//
// Owns copies of what it keeps. An attacker may have chosen the log's texts. They are kept as they are in the
// log, so they are not yet safe for any page.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/audit/report/calls.hpp"
#include "supervisor/audit/report/denials.hpp"
#include "supervisor/audit/report/histogram.hpp"
#include "supervisor/audit/report/objects.hpp"
#include "supervisor/audit/report/processes.hpp"

namespace callgate::audit::report {

/// A run of the log, by its first and last record.
struct Run {
    std::string name, mode, workdir, version, kernel, rules_sha256;
    std::vector<std::string> command, profiles, degraded;
    std::uint64_t landlock_abi = 0;
    std::int64_t started = 0, ended = 0;  // microseconds since the epoch; 0: not on record
    std::string outcome;                  // "" if the end is not on record
    std::optional<int> exit_code, signal;
    std::uint64_t duration_ms = 0;
};

struct Contents {
    static constexpr std::size_t max_runs = 64, max_rules = 10'000, max_string_bytes = 32U << 20;

    std::string file;
    std::uint64_t records = 0, bad_lines = 0;
    bool torn = false;
    std::string head;  // the last record's hash, as it is written there
    std::vector<Run> runs;
    std::uint64_t runs_cut = 0;  // records of further runs

    Strings strings{max_string_bytes};
    Objects objects{strings};
    Processes processes{strings};
    Calls calls{strings};
    Denials denials{strings};
    Histogram times;
    std::map<std::uint32_t, Tally> rules;  // by id, or "default"; "": no rule decided
    std::uint64_t rules_cut = 0;           // calls of further rules
    Tally calls_by_outcome{};
    std::map<std::string, Tally> verdicts;  // allow, ask, deny, kill

    Contents() = default;
    Contents(const Contents&) = delete;
    Contents& operator=(const Contents&) = delete;
};

/// Whether the program itself ended well: exit status 0.
[[nodiscard]] bool ended_well(const Run& run);
/// "exited 0", "signaled 9", "timeout"; "no end on record".
[[nodiscard]] std::string outcome_text(const Run& run);

}  // namespace callgate::audit::report
