// The records about a run itself, and the second record of a decision.

#include <algorithm>
#include <span>

#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/audit/write/format_common.hpp"
#include "supervisor/audit/write/redact.hpp"

namespace callgate::audit {

namespace {

/// At most this much of a command is on record; execve(2) takes more than a line may hold.
constexpr std::size_t max_arguments = 1024, max_argument_bytes = 64 << 10;
/// At most this much of the expansions of patterns is on record.
constexpr std::size_t max_expanded_bytes = 64 << 10;

/// A member that is an array; `append` writes one element.
template <typename Values, typename Append>
void append_array(Buffer& out, std::string_view name, const Values& values, Append append) {
    out << ",\"" << name << "\":[";
    bool first = true;
    for (const auto& one : values) {
        if (!first) out << ',';
        first = false;
        append(one);
    }
    out << ']';
}

std::size_t size_of(const rules::LoadSnapshot::Expanded& one) {
    std::size_t size = one.pattern.size();
    for (const std::string& path : one.paths) size += path.size();
    return size;
}

/// Appends all links or none: a replay takes a path that is missing from the list for its own target.
void append_links(Buffer& out, const std::map<std::string, std::string>& links) {
    std::size_t size = 0;
    for (const auto& [name, target] : links) {
        size += name.size() + target.size();
        if (size > max_expanded_bytes || !is_utf8(name) || !is_utf8(target)) return;
    }
    append_array(out, "links", links, [&out](const auto& link) {
        out << R"({"name":)";
        append_json_string(out, link.first);
        append_string(out, "target", link.second);
        out << '}';
    });
}

/// Parts that are left out, because they are long or no text, are taken from the host again in a replay.
void append_snapshot(Buffer& out, const rules::LoadSnapshot& taken) {
    std::vector<const rules::LoadSnapshot::Expanded*> kept;
    std::size_t left = max_expanded_bytes;
    for (const rules::LoadSnapshot::Expanded& one : taken.expanded) {
        const std::size_t size = size_of(one);
        if (size > left || !is_utf8(one.pattern) || !std::ranges::all_of(one.paths, is_utf8)) continue;
        left -= size;
        kept.push_back(&one);
    }
    append_array(out, "expanded", kept, [&out](const rules::LoadSnapshot::Expanded* one) {
        out << R"({"pattern":)";
        append_json_string(out, one->pattern);
        out << R"(,"followed":)" << (one->followed ? "true" : "false");
        append_strings(out, "paths", one->paths);
        out << '}';
    });
    append_array(out, "hosts", taken.hosts, [&out](const auto& host) {
        std::vector<std::string> shown;
        for (const rules::IpAddress& one : host.second) shown.push_back(rules::text(one));
        out << R"({"name":)";
        append_json_string(out, host.first);
        append_strings(out, "addresses", shown);
        out << '}';
    });
}

void append_optional(Buffer& out, std::string_view name, const std::optional<int>& value) {
    out << ",\"" << name << "\":";
    if (value) {
        out << *value;
    } else {
        out << "null";
    }
}

void append_counts(Buffer& out, const Counts& counts) {
    out << R"(,"counts":)";
    JsonWriter json(out);
    json.begin_object();
    for (const auto& [name, place] : count_members) json.member(name, counts.*place);
    json.end_object();
}

}  // namespace

std::size_t begin_event(Buffer& out, std::string_view type, std::string_view action,
                        std::string_view outcome) {
    begin_line(out);
    out << R"("category":["process"],"type":[")" << type << R"("],"action":")" << action << R"(","outcome":")"
        << outcome << R"(","sequence":)";
    return out.size();
}

void append_arguments(Buffer& out, std::string_view name, std::span<const std::string> arguments) {
    std::vector<std::string> kept;
    std::size_t left = max_argument_bytes;
    for (const std::string& argument : arguments) {
        if (kept.size() == max_arguments || left == 0) break;
        kept.push_back(argument.substr(0, left));
        left -= kept.back().size();
    }
    const bool whole =
        kept.size() == arguments.size() && (kept.empty() || kept.back().size() == arguments.back().size());
    append_strings(out, name, redact(kept));
    if (!whole) out << ",\"" << name << "_cut\":true";
}

void append_octal(Buffer& out, std::uint32_t mode) {
    char digits[12];
    const auto end = std::to_chars(digits, digits + sizeof digits, mode, 8).ptr;
    const auto count = static_cast<std::size_t>(end - digits);
    out << '"' << std::string_view("0000").substr(std::min<std::size_t>(count, 4))
        << std::string_view(digits, count) << '"';
}

std::size_t format(Buffer& out, const RunContext& context, const ActFailed& what) {
    const std::size_t sequence_at = begin_event(out, "info", "act.failed", "failure");
    out << '}';
    begin_callgate(out, context);
    out << R"(,"of_sequence":)" << what.of_sequence << R"(,"errno":)";
    append_errno(out, what.error);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const AnswerLost& what) {
    const std::size_t sequence_at = begin_event(out, "info", "answer.lost", "unknown");
    out << '}';
    begin_callgate(out, context);
    out << R"(,"of_sequence":)" << what.of_sequence << R"(,"errno":null)";
    append_string(out, "reason", what.why);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const Refused& what) {
    const std::size_t sequence_at = begin_event(out, "info", "call.refused", "failure");
    out << '}';
    append_caller(out, what.caller);
    begin_callgate(out, context);
    append_string(out, "call", what.call);
    append_string(out, "kind", what.kind);
    out << R"(,"errno":)";
    append_errno(out, what.error);
    append_string(out, "reason", what.consequence);
    out << R"(,"count":)" << what.count;
    if (what.of_sequence != 0) out << R"(,"of_sequence":)" << what.of_sequence;
    append_exact_program(out, what.caller.executable);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const RunStart& start) {
    const std::size_t sequence_at = begin_event(out, "start", "run.start", "unknown");
    out << R"(},"process":{"pid":)" << start.pid << '}';
    if (!start.host.empty()) {
        out << R"(,"host":{"hostname":)";
        append_json_string(out, start.host);
        out << '}';
    }
    begin_callgate(out, context);
    append_string(out, "version", CALLGATE_VERSION);
    append_arguments(out, "command", start.command);
    append_string(out, "workdir", start.workdir);
    append_string(out, "temporary_directory", start.temporary_directory);
    append_bytes(out, "home", start.home);
    if (!start.user_home.empty()) append_bytes(out, "user_home", start.user_home);
    append_bytes(out, "config", start.config);
    if (!start.snapshot.git_common.empty()) {
        append_bytes(out, "git_common", start.snapshot.git_common);
        append_bytes(out, "git_admin", start.snapshot.git_admin);
    }
    append_string(out, "rules_sha256", start.rules_sha256);
    append_strings(out, "profiles", start.profiles);
    append_string(out, "kernel", start.kernel);
    out << R"(,"landlock_abi":)" << start.landlock_abi;
    append_strings(out, "degraded", start.degraded);
    append_snapshot(out, start.snapshot);
    if (start.snapshot.links) append_links(out, *start.snapshot.links);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const RunEnd& end) {
    const bool good = end.outcome == Outcome::exited && end.exit_code == 0;
    const std::size_t sequence_at = begin_event(out, "end", "run.end", good ? "success" : "failure");
    out << R"(,"duration":)" << end.duration_ms * 1'000'000 << '}';
    begin_callgate(out, context);
    append_string(out, "outcome", callgate::name(end.outcome));
    append_optional(out, "exit_code", end.exit_code);
    append_optional(out, "signal", end.signal);
    out << R"(,"duration_ms":)" << end.duration_ms;
    append_counts(out, end.counts);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const Checkpoint& what) {
    const std::size_t sequence_at = begin_event(out, "info", "checkpoint", "success");
    out << '}';
    begin_callgate(out, context);
    out << R"(,"records":)" << what.records;
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const Recovered& what) {
    const std::size_t sequence_at = begin_event(out, "info", "recovered", "success");
    out << '}';
    begin_callgate(out, context);
    out << R"(,"torn_bytes":)" << what.bytes;
    append_string(out, "set_aside", what.set_aside);
    end_line(out);
    return sequence_at;
}

}  // namespace callgate::audit
