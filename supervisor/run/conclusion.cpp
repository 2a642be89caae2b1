#include "supervisor/run/conclusion.hpp"

#include <cerrno>
#include <chrono>

#include "base/plural.hpp"
#include "supervisor/run/limits/held.hpp"
#include "supervisor/run/setup_error.hpp"

namespace callgate {

namespace {

/// The system's log has this long once the run is over.
constexpr std::chrono::seconds max_syslog_wait{2};

std::string message_line(const std::string& text) { return "callgate: " + text + '\n'; }

void record_end(const Conclusion& end, RunOutcome& outcome) {
    if (end.log == nullptr) return;
    const auto written = end.log->record(audit::RunEnd{.outcome = outcome.outcome,
                                                       .exit_code = outcome.exit_code,
                                                       .signal = outcome.signal,
                                                       .duration_ms = outcome.duration_ms,
                                                       .counts = end.report.counts()});
    if (!written && outcome.log_error == 0) outcome.log_error = written.error().value();
}

void note_lost_records(const Conclusion& end, RunOutcome& outcome) {
    if (end.syslog != nullptr) {
        const auto lost = end.syslog->finish(max_syslog_wait);
        if (lost.records > 0 && outcome.error.empty())
            outcome.error = plural(lost.records, "record") + " did not reach the system's log (" +
                            lost.why.message() + "): the audit log has them";
    }
    if (outcome.log_error != 0 && outcome.error.empty())
        outcome.error = "the audit log could not be written (" + because(outcome.log_error) +
                        "): what could not be recorded was denied";
}

std::string error_line(const Conclusion& end, const RunOutcome& outcome) {
    if (outcome.outcome == Outcome::exec_failed) {
        // The command never ran: the last denied execution is the one that failed.
        const std::string why = end.report.last_denial(rules::Operation::execute, end.hints);
        return message_line("cannot run " + end.facts.command.front() + ": " + outcome.error +
                            (why.empty() ? "" : " (" + why + ")"));
    }
    return outcome.error.empty() || end.cancelled_early ? "" : message_line(outcome.error);
}

}  // namespace

std::string conclude(const Conclusion& end, RunOutcome& outcome) {
    record_end(end, outcome);
    note_lost_records(end, outcome);
    std::string text;
    if (end.target.wanted() &&
        !agent::write_report(end.target,
                             end.report.json(end.facts, outcome, end.log == nullptr ? 0 : end.log->records(),
                                             end.log == nullptr ? "" : "sha256:" + end.log->head())))
        text += message_line("the report could not be written: " + because(errno));
    if (const auto why = limits::exceeded_text(outcome.outcome, end.facts.limits); why && !end.quiet)
        text += message_line(*why + ", after " + std::to_string(outcome.duration_ms) + " ms");
    text += error_line(end, outcome);
    if (!end.quiet) text += end.report.footer(end.facts, outcome, end.hints);
    return text;
}

}  // namespace callgate
