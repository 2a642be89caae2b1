// Times of records: UTC with nanoseconds, "2026-11-20T10:11:12.123456789Z".
#pragma once

#include <ctime>

#include "supervisor/audit/buffer.hpp"

namespace callgate::audit {

/// Appends `when` (CLOCK_REALTIME). The calendar is computed once per second and thread.
void append_timestamp(Buffer& out, const std::timespec& when);

}  // namespace callgate::audit
