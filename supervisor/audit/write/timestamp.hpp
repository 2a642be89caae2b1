// Times of records: UTC with nanoseconds, "2026-11-20T10:11:12.123456789Z".
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

#include "base/buffer.hpp"

namespace callgate::audit {

/// Appends `when` (CLOCK_REALTIME). The calendar is computed once per second and thread.
void append_timestamp(Buffer& out, const std::timespec& when);

/// The time of a record. Returns nullopt if `text` does not have that form, or is no date or time of day.
[[nodiscard]] std::optional<std::timespec> read_timestamp(std::string_view text);
/// The same time in nanoseconds since 1970, as far as 64 bits hold them (the year 2262).
[[nodiscard]] std::optional<std::int64_t> parse_timestamp(std::string_view text);

}  // namespace callgate::audit
