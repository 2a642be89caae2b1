#include "supervisor/audit/verbs/export.hpp"

#include <array>
#include <ostream>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/write/format.hpp"

namespace callgate::audit {

namespace {

constexpr std::array<std::string_view, 4> formats = {"ecs", "ocsf", "otlp-json", "csv"};

std::unique_ptr<Exporter> make_exporter(std::ostream& out, const std::string& format) {
    if (format == "ecs") return ecs_exporter(out);
    if (format == "ocsf") return ocsf_exporter(out);
    if (format == "otlp-json") return otlp_exporter(out);
    return format == "csv" ? csv_exporter(out) : nullptr;
}

std::string message_of(const Entry& entry) {
    if (!entry.decision()) return other_text(entry);
    std::string text = verdict_text(entry) + ' ' + entry.operation + ' ' + entry.object;
    if (!entry.rule.empty())
        text += " by " + (entry.rule == "default" ? "" : std::string("rule ")) + entry.rule;
    if (!entry.reason.empty()) text += ": " + entry.reason;
    return text;
}

}  // namespace

void Exporter::write(const ExportJson& value) { out_ << json_read::ascii_text(value) << '\n'; }

std::span<const std::string_view> export_formats() { return formats; }

std::string export_text(const ExportJson& value, std::initializer_list<const char*> path) {
    const ExportJson* at = &value;
    for (const char* name : path) {
        if (!at->is_object()) return {};
        const auto found = at->find(name);
        if (found == at->end()) return {};
        at = &*found;
    }
    return at->is_string() ? at->get<std::string>() : std::string();
}

bool was_refused(const Entry& entry) {
    return entry.decision() && entry.verdict != "allow" && entry.refused();
}

int export_log(std::ostream& out, std::ostream& errors, const ExportOptions& options) {
    const std::unique_ptr<Exporter> exporter = make_exporter(out, options.format);
    if (!exporter) {
        errors << "--format: expected ecs, ocsf, otlp-json or csv\n";
        return exit_wrong_use;
    }
    std::optional<Opened> log = open_log(errors, options.log, options.filter);
    if (!log) return exit_wrong_use;
    std::string host;
    const int status = for_each_record(log->reader, errors, [&](const Entry& entry) {
        const bool wanted = log->selection.matches(entry);
        if (!wanted && entry.action != "run.start") return;
        const auto record = ExportJson::parse(log->reader.line(), nullptr, false);
        if (entry.action == "run.start") host = export_text(record, {"host", "hostname"});
        if (wanted)
            exporter->add({record, entry, parse_timestamp(entry.time).value_or(0), host, message_of(entry)});
    });
    exporter->finish();
    return status;
}

}  // namespace callgate::audit
