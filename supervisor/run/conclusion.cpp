#include "supervisor/run/conclusion.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/escape.hpp"
#include "base/plural.hpp"
#include "base/words.hpp"
#include "supervisor/run/limits/held.hpp"
#include "supervisor/run/setup_error.hpp"

namespace callgate {

namespace {

/// The system's log has this long once the run is over.
constexpr std::chrono::seconds max_syslog_wait{2};

/// Log or report could not be written although the command succeeded (docs/cli.md).
constexpr int output_lost = 123;

std::string message_line(const std::string& text) { return "callgate: " + text + '\n'; }

void record_end(const Conclusion& end, RunOutcome& outcome) {
    if (end.log == nullptr) return;
    const int lost = end.refusals != nullptr ? end.refusals->record_totals(*end.log) : 0;
    if (lost != 0 && outcome.log_error == 0) outcome.log_error = lost;
    const auto written = end.log->record(audit::RunEnd{.outcome = outcome.outcome,
                                                       .exit_code = outcome.exit_code,
                                                       .signal = outcome.signal,
                                                       .duration_ms = outcome.duration_ms,
                                                       .counts = end.report.counts()});
    if (!written && outcome.log_error == 0) outcome.log_error = written.error().value();
}

/// A script that asks for the status alone learns of it, too.
void note_lost_output(RunOutcome& outcome) {
    if (outcome.exit_status == 0) outcome.exit_status = output_lost;
}

std::string lost_report(RunOutcome& outcome) {
    const std::string why = because(errno);
    note_lost_output(outcome);
    return message_line("the report could not be written: " + why);
}

void note_lost_records(const Conclusion& end, RunOutcome& outcome) {
    if (end.syslog != nullptr) {
        const auto lost = end.syslog->finish(max_syslog_wait);
        if (lost.records > 0 && outcome.error.empty())
            outcome.error = plural(lost.records, "record") + " did not reach the system's log (" +
                            lost.why.message() + "): the audit log has them";
    }
    if (outcome.log_error != 0 && outcome.error.empty() && outcome.outcome != Outcome::log_full)
        outcome.error = "the audit log could not be written (" + because(outcome.log_error) +
                        "): what could not be recorded was denied";
    if (outcome.log_error != 0) note_lost_output(outcome);
}

/// Whether a shell would take the word for the value of a variable.
bool sets_variable(std::string_view word) {
    const std::string_view name = word.substr(0, word.find('='));
    const auto letter = [](char one) {
        return one == '_' || (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z');
    };
    return name.size() < word.size() && !name.empty() && letter(name.front()) &&
           std::ranges::all_of(name, [&](char one) { return letter(one) || (one >= '0' && one <= '9'); });
}

/// A command that no program has the name of may have been meant for a shell.
std::string line_of_shell(const RunFacts& facts, const RunOutcome& outcome) {
    constexpr int not_found = 127;
    constexpr std::string_view builtins =
        "alias bg cd eval exec exit export fg jobs popd pushd return set shift source trap type ulimit umask "
        "unset wait";
    const std::string& word = facts.command.front();
    if (outcome.exit_status != not_found) return "";
    if (sets_variable(word)) return "; a variable is set by --env " + shell_quote(word);
    if (has_word(builtins, word)) {
        std::string line = word;
        for (std::size_t index = 1; index < facts.command.size(); ++index)
            line += ' ' + shell_quote(facts.command[index]);
        return "; only a shell has this command: run sh -c " + shell_quote(line);
    }
    if (facts.command.size() > 1 || word.find(' ') == std::string::npos) return "";
    return "; this is one word: give its words one by one, or run sh -c " + shell_quote(word);
}

std::string error_line(const Conclusion& end, const RunOutcome& outcome) {
    if (outcome.outcome == Outcome::exec_failed) {
        // The command never ran: the last denied execution is the one that failed.
        const std::string why = end.report.last_denial(rules::Operation::execute, end.hints);
        return message_line("cannot run " + end.facts.command.front() + ": " + outcome.error +
                            (why.empty() ? "" : " (" + why + ")") + line_of_shell(end.facts, outcome));
    }
    return outcome.error.empty() || end.cancelled_early ? "" : message_line(outcome.error);
}

}  // namespace

std::string conclude(const Conclusion& end, RunOutcome& outcome) {
    record_end(end, outcome);
    note_lost_records(end, outcome);
    std::string text, report;
    if (end.target.wanted() || end.json)
        report = end.report.json(end.facts, outcome, end.log == nullptr ? 0 : end.log->records(),
                                 end.log == nullptr ? "" : "sha256:" + end.log->head());
    if (end.target.wanted() && !agent::write_report(end.target, report)) text += lost_report(outcome);
    if (const auto why = limits::exceeded_text(outcome.outcome, end.facts.limits); why && !end.quiet)
        text += message_line(*why + ", after " + std::to_string(outcome.duration_ms) + " ms");
    text += error_line(end, outcome);
    if (!end.quiet) text += end.json ? report : end.report.footer(end.facts, outcome, end.hints);
    return text;
}

}  // namespace callgate
