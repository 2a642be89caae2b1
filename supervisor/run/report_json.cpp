// The report of a run as one JSON object, as docs/report.schema.json describes it.

#include <algorithm>

#include "base/json_writer.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/audit/write/redact.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

void add_effective(JsonWriter& report, const RunFacts& facts, const RunOutcome& outcome) {
    report.begin_object("effective")
        .member("landlock_abi", facts.landlock_abi)
        .member("listener", outcome.outcome != Outcome::setup_error)
        .member("degraded", facts.degraded)
        .member("rules_sha256", facts.rules_sha256)
        .end_object();
}

void add_counts(JsonWriter& report, const audit::Counts& all) {
    report.begin_object("counts");
    for (const auto& [name, place] : audit::count_members) report.member(name, all.*place);
    report.end_object();
}

void add_denial(JsonWriter& report, const Denial& denial) {
    report.begin_object()
        .member("operation", rules::name(denial.operation))
        .member("object", denial.object)
        .member("rule", denial.rule)
        .member("reason", denial.note)
        .member("pid", denial.pid)
        .member("program", denial.program);
    audit::append_errno(report.key("errno").slot(), denial.error);
    report.member("count", denial.count).member("hint", denial.hint);
    if (denial.by_nested) report.member("by_nested", true);
    report.end_object();
}

void add_refused(JsonWriter& report, const calls::Refusals::Seen& one) {
    report.begin_object()
        .member("kind", one.kind->name)
        .member("call", one.call)
        .member("program", one.program)
        .member("pid", one.pid);
    audit::append_errno(report.key("errno").slot(), one.error);
    report.member("count", one.count).member("consequence", one.kind->consequence).end_object();
}

void add_usage(JsonWriter& report, const RunOutcome& outcome) {
    report.begin_object("usage")
        .member("cpu_ms", outcome.cpu_ms)
        .member("max_rss_kb", outcome.max_rss_kb)
        .member("bytes_written", outcome.bytes_written)
        .member("processes", outcome.processes)
        .member("notifications", outcome.notifications)
        .begin_object("notifications_by_tier")
        .member("continued", outcome.continued)
        .member("answered", outcome.notifications - std::min(outcome.continued, outcome.notifications))
        .end_object()
        .end_object();
}

void add_limits(JsonWriter& report, const RunFacts& facts, const RunOutcome& outcome) {
    report.begin_object("limits");
    for (const limits::HeldLimit& held : limits::held_limits(facts.limits, outcome.peak)) {
        report.begin_object(held.name).member("limit", held.limit).member("enforced_by", held.enforced_by);
        if (held.peak) report.member("peak", *held.peak);
        report.end_object();
    }
    report.end_object();
}

void add_audit(JsonWriter& report, const RunFacts& facts, std::uint64_t records, const std::string& head) {
    if (!facts.audited) {
        report.key("audit").null();
        return;
    }
    report.begin_object("audit")
        .text_or_null("file", facts.audit_file)
        .member("records", records)
        .text_or_null("head", head)
        .end_object();
}

}  // namespace

std::string report_json(const RunFacts& facts, const RunOutcome& outcome, const audit::Counts& counts,
                        const std::vector<Denial>& denials, std::uint64_t quiet,
                        const std::vector<calls::Refusals::Seen>& refused, std::uint64_t records,
                        const std::string& head) {
    Buffer out(4096);
    JsonWriter report(out);
    report.begin_object()
        .member("version", 1)
        .member("run", facts.run)
        .member("outcome", name(outcome.outcome))
        .member("exit_code", outcome.exit_code)
        .member("signal", outcome.signal)
        .member("duration_ms", outcome.duration_ms)
        .member("mode", name(facts.mode))
        .member("command", audit::redact(facts.command))
        .member("workdir", facts.workdir);
    add_effective(report, facts, outcome);
    add_counts(report, counts);
    report.list("denials", denials, [&](const Denial& denial) { add_denial(report, denial); });
    report.member("quiet_denials", quiet);
    report.list("refused", refused, [&](const calls::Refusals::Seen& one) { add_refused(report, one); });
    add_usage(report, outcome);
    add_limits(report, facts, outcome);
    report.begin_object("environment")
        .member("held_back", facts.held_back)
        .member("not_passed", facts.not_passed)
        .member("agents_own", facts.agents_own)
        .member("exposed", facts.exposed)
        .end_object();
    add_audit(report, facts, records, head);
    report.text_or_null("error", outcome.error).end_object();
    out << '\n';
    return std::string(out.view());
}

}  // namespace callgate
