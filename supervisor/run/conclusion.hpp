// The end of a run, put on record: run.end in the log, the report, and the lines for the user.
//
// A record that could not be written is never silent: the report and a line on stderr name the error.
#pragma once

#include <string>

#include "agent/report_target.hpp"
#include "supervisor/audit/write/log.hpp"
#include "supervisor/audit/write/syslog.hpp"
#include "supervisor/decide/refusals.hpp"
#include "supervisor/run/report.hpp"

namespace callgate {

struct Conclusion {
    const RunFacts& facts;
    const RunReport& report;
    calls::Refusals* refusals = nullptr;  // null: nothing was refused by the filter
    audit::Log* log = nullptr;            // null: --no-audit, or the log could not be opened
    audit::Syslog* syslog = nullptr;      // null: no --syslog
    const agent::ReportTarget& target;
    bool quiet = false, hints = true;
    bool json = false;  // the report in place of the footer
    /// A signal ended the run before the command began. The sender knows, so no line says it.
    bool cancelled_early = false;
};

/// Writes run.end and the report, and returns the lines for stderr. Notes in `outcome.error` the records that
/// could not be written, unless an error stands there already. A log or report that could not be written
/// makes an exit status of 0 to 123.
[[nodiscard]] std::string conclude(const Conclusion& end, RunOutcome& outcome);

}  // namespace callgate
