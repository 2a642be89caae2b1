// The mechanism that holds each limit of a run, with the texts about it in the report and on stderr.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guardian.hpp"
#include "rules/model/limits.hpp"
#include "supervisor/audit/write/outcome.hpp"

namespace callgate::limits {

/// The largest usage that was seen at one moment.
struct TreePeak {
    std::uint64_t memory = 0;  // bytes; near the limit shared pages count by share, else in each process
    std::uint64_t tasks = 0;
    bool memory_in_group = false, tasks_in_group = false;  // the kernel held the limit
};

/// This variable of callgate's own environment tells how many tasks of the same user other jobs of a server
/// may have.
inline constexpr const char* beside_variable = "CALLGATE_TASKS_BESIDE";

/// Limits that each process of the tree gets (setrlimit(2)): its own, and backstops to the tree's limits.
/// Between two readings an ordinary user cannot make many more tasks than `processes` and all other jobs. A
/// single process cannot use much more processor time than `cpu`.
[[nodiscard]] std::vector<agent::Limit> process_limits(const rules::Limits& limits);

/// "512M"
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// "ended: more memory was used than --memory 512M", if a limit led to this outcome.
[[nodiscard]] std::optional<std::string> exceeded_text(Outcome outcome, const rules::Limits& limits);

/// A member of the report's "limits".
struct HeldLimit {
    std::string_view name;         // as in rule sets
    std::uint64_t limit = 0;       // bytes, count, or milliseconds
    std::string_view enforced_by;  // "cgroup", "rlimit", "sampled", "timer"
    std::optional<std::uint64_t> peak;
};
[[nodiscard]] std::vector<HeldLimit> held_limits(const rules::Limits& limits,
                                                 const std::optional<TreePeak>& peak);

}  // namespace callgate::limits
