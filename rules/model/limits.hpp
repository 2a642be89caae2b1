// Limits and environment of a run, as a rule set states them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::rules {

struct Limits {
    std::optional<std::uint64_t> memory, file_size, disk;  // bytes
    std::optional<std::uint64_t> processes, open_files;    // counts
    std::optional<std::chrono::milliseconds> cpu, wall, idle;

    /// The tighter of both, limit by limit.
    [[nodiscard]] Limits tighter(const Limits& other) const;
};

struct Environment {
    std::vector<std::string> pass;
    std::vector<std::string> agent;  // for the agent alone: passed to it, and not to what it executes
    std::map<std::string, std::string> set;
};

/// Parses "512M" into bytes (K, M, G, T powers of 1024; bare: bytes). Nothing on nonsense or overflow.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);
/// Parses "1500ms", "30s", "2m", "1h". A bare number is seconds, fractions allowed ("0.5").
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace callgate::rules
