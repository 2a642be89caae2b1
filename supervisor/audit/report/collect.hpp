// From a log to the contents of its report.
#pragma once

#include <iosfwd>
#include <string_view>

#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/report/contents.hpp"

namespace callgate::audit::report {

/// Reads to the end. Reports the first malformed lines on `errors`, and counts all of them.
void collect(Contents& contents, Reader& reader, std::ostream& errors);

/// "2026-11-20T10:11:12.123456789Z" as microseconds since the epoch; empty if malformed.
[[nodiscard]] std::optional<std::int64_t> microseconds(std::string_view time);
/// And back: "2026-11-20T10:11:12Z".
[[nodiscard]] std::string time_text(std::int64_t microseconds);

}  // namespace callgate::audit::report
