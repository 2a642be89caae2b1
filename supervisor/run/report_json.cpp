// The report of a run as one JSON object: member by member as cli.md has it.

#include <algorithm>

#include "base/escape.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/audit/write/redact.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

/// Members of one JSON object, comma by comma.
class Members {
public:
    explicit Members(Buffer& out) : out_(out) { out_ << '{'; }
    void end() { out_ << '}'; }
    Buffer& name(std::string_view name) {
        out_ << (first_ ? "\"" : ",\"") << name << "\":";
        first_ = false;
        return out_;
    }
    void text(std::string_view key, std::string_view value) { append_json_string(name(key), value); }
    /// null where there is none.
    void text_or_null(std::string_view key, std::string_view value) {
        value.empty() ? static_cast<void>(name(key) << "null") : text(key, value);
    }
    void number(std::string_view key, std::uint64_t value) { name(key) << value; }
    void number_or_null(std::string_view key, std::optional<int> value) {
        value ? name(key) << *value : name(key) << "null";
    }
    void texts(std::string_view key, const std::vector<std::string>& values) {
        name(key) << '[';
        for (std::size_t at = 0; at < values.size(); ++at) {
            if (at > 0) out_ << ',';
            append_json_string(out_, values[at]);
        }
        out_ << ']';
    }

private:
    Buffer& out_;
    bool first_ = true;
};

void add_effective(Members& report, const RunFacts& facts, const RunOutcome& outcome) {
    Members effective(report.name("effective"));
    effective.name("landlock_abi") << facts.landlock_abi;
    effective.name("listener") << (outcome.outcome == "setup_error" ? "false" : "true");
    effective.texts("degraded", facts.degraded);
    effective.text("rules_sha256", facts.rules_sha256);
    effective.end();
}

void add_counts(Members& report, const audit::Counts& all) {
    Members counts(report.name("counts"));
    counts.number("allow", all.allow);
    counts.number("deny", all.deny);
    counts.number("ask", all.ask);
    counts.number("kill", all.kill);
    counts.number("would_deny", all.would_deny);
    counts.number("would_ask", all.would_ask);
    counts.number("would_kill", all.would_kill);
    counts.end();
}

void add_denials(Members& report, Buffer& out, const std::vector<Denial>& denials) {
    report.name("denials") << '[';
    for (std::size_t at = 0; at < denials.size(); ++at) {
        const Denial& denial = denials[at];
        if (at > 0) out << ',';
        Members one(out);
        one.text("operation", rules::name(denial.operation));
        one.text("object", denial.object);
        one.text("rule", denial.rule);
        one.text("reason", denial.note);
        one.name("pid") << denial.pid;
        one.text("program", denial.program);
        audit::append_errno(one.name("errno"), denial.error);
        one.number("count", denial.count);
        one.text("hint", denial.hint);
        one.end();
    }
    out << ']';
}

void add_usage(Members& report, const RunOutcome& outcome) {
    Members usage(report.name("usage"));
    usage.number("cpu_ms", outcome.cpu_ms);
    usage.number("max_rss_kb", outcome.max_rss_kb);
    usage.number("bytes_written", outcome.bytes_written);
    usage.number("processes", outcome.processes);
    usage.number("notifications", outcome.notifications);
    Members tiers(usage.name("notifications_by_tier"));
    tiers.number("continued", outcome.continued);
    tiers.number("answered", outcome.notifications - std::min(outcome.continued, outcome.notifications));
    tiers.end();
    usage.end();
}

void add_limits(Members& report, const RunFacts& facts, const RunOutcome& outcome) {
    Members all(report.name("limits"));
    for (const limits::HeldLimit& held : limits::held_limits(facts.limits, outcome.peak)) {
        Members one(all.name(held.name));
        one.number("limit", held.limit);
        one.text("enforced_by", held.enforced_by);
        if (held.peak) one.number("peak", *held.peak);
        one.end();
    }
    all.end();
}

void add_environment(Members& report, const RunFacts& facts) {
    Members environment(report.name("environment"));
    environment.texts("held_back", facts.held_back);
    environment.end();
}

void add_audit(Members& report, const RunFacts& facts, std::uint64_t records, const std::string& head) {
    if (!facts.audited) {
        report.name("audit") << "null";
        return;
    }
    Members audit(report.name("audit"));
    audit.text_or_null("file", facts.audit_file);
    audit.number("records", records);
    audit.text_or_null("head", head);
    audit.end();
}

}  // namespace

std::string report_json(const RunFacts& facts, const RunOutcome& outcome, const audit::Counts& counts,
                        const std::vector<Denial>& denials, std::uint64_t records, const std::string& head) {
    Buffer out(4096);
    Members report(out);
    report.number("version", 1);
    report.text("run", facts.run);
    report.text("outcome", outcome.outcome);
    report.number_or_null("exit_code", outcome.exit_code);
    report.number_or_null("signal", outcome.signal);
    report.name("duration_ms") << outcome.duration_ms;
    report.text("mode", facts.mode);
    report.texts("command", audit::redact(facts.command));
    report.text("workdir", facts.workdir);
    add_effective(report, facts, outcome);
    add_counts(report, counts);
    add_denials(report, out, denials);
    add_usage(report, outcome);
    add_limits(report, facts, outcome);
    add_environment(report, facts);
    add_audit(report, facts, records, head);
    report.text_or_null("error", outcome.error);
    report.end();
    out << '\n';
    return std::string(out.view());
}

}  // namespace callgate
