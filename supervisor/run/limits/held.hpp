// What holds each limit of a run, and how that is said: in the report and, where one ended the tree, on
// stderr.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guardian.hpp"
#include "rules/model/limits.hpp"

namespace callgate::limits {

/// The most that was seen at once.
struct TreePeak {
    std::uint64_t memory = 0;  // bytes; shared pages by share where the limit was near, else each time
    std::uint64_t tasks = 0;
    bool memory_in_group = false, tasks_in_group = false;  // the kernel held it
};

/// What each process of the tree is told of (setrlimit(2)): the limits that are its own, and nets beneath
/// those of the tree. A user who is not root cannot make many more tasks than `processes` even between two
/// readings; no process alone uses much more processor time than `cpu`.
[[nodiscard]] std::vector<agent::Limit> process_limits(const rules::Limits& limits);

/// "the tree used more memory than --memory 512M": of an outcome that a limit has; else "".
[[nodiscard]] std::string exceeded_text(std::string_view outcome, const rules::Limits& limits);

/// One member of the report's "limits".
struct HeldLimit {
    std::string_view name;         // as rule sets have it
    std::uint64_t limit = 0;       // bytes, count, or milliseconds
    std::string_view enforced_by;  // "cgroup", "rlimit", "sampled", "timer"
    std::optional<std::uint64_t> peak;
};
[[nodiscard]] std::vector<HeldLimit> held_limits(const rules::Limits& limits,
                                                 const std::optional<TreePeak>& peak);

}  // namespace callgate::limits
