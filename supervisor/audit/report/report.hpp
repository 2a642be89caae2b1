// `callgate audit report`: one log as a page for a browser, or as Markdown for a comment.
//
// Reads the log once, in bounded memory. The report says how much its lists leave out. The log is hostile, as
// for every reader (show.hpp).
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "supervisor/audit/verbs/show.hpp"

namespace callgate::audit {

struct ReportOptions {
    LogChoice log{};
    std::optional<std::string> html{}, markdown{};  // files; "-" is `out`
};

/// Returns 0 if good, 1 if some lines were malformed, 125 if the log is missing or a file cannot be written.
/// A file is readable for its owner alone, as the log is. It is whole or absent.
[[nodiscard]] int make_report(std::ostream& out, std::ostream& errors, const ReportOptions& options);

}  // namespace callgate::audit
