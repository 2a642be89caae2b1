// The outcome of a call in the report. The call was allowed or refused, or audit mode let it go on although
// the rules would have refused or asked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "supervisor/audit/read/reader.hpp"

namespace callgate::audit::report {

enum class Outcome : std::uint8_t { allowed, refused, would };
inline constexpr std::size_t outcomes = 3;

/// Calls by outcome.
using Tally = std::array<std::uint64_t, outcomes>;

[[nodiscard]] inline Outcome outcome_of(const Entry& entry) {
    if (entry.verdict == "allow") return Outcome::allowed;
    return entry.refused() ? Outcome::refused : Outcome::would;
}

inline void count(Tally& tally, Outcome outcome) { ++tally[static_cast<std::size_t>(outcome)]; }

}  // namespace callgate::audit::report
