// Times of records: UTC with nanoseconds, "2026-11-20T10:11:12.123456789Z".
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

#include "supervisor/audit/buffer.hpp"

namespace callgate::audit {

/// Appends `when` (CLOCK_REALTIME). The calendar is computed once per second and thread.
void append_timestamp(Buffer& out, const std::timespec& when);

/// Nanoseconds since 1970 of a record's time; nothing where it has not that form.
[[nodiscard]] std::optional<std::int64_t> parse_timestamp(std::string_view text);

}  // namespace callgate::audit
