// `callgate audit report`: one log as a page for a browser, or as Markdown for a comment.
//
// Reads the log once, in bounded memory; what had to be left out of the lists is said in the report. The log
// is hostile, as for every reader (show.hpp).
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

/// 0 good, 1 some lines were no records, 125 no such log or a file that cannot be written. A file is readable
/// for its owner alone, as the log is, and is whole or not there.
[[nodiscard]] int make_report(std::ostream& out, std::ostream& errors, const ReportOptions& options);

}  // namespace callgate::audit
