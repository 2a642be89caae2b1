// Logs of OpenTelemetry's protocol in its JSON form: one LogsData per line, as its file exporter writes them.
//
// The record's members are attributes under their dotted ECS names; the message is the body. Whole numbers
// are strings, because the JSON form of a 64-bit number is one.
#include "supervisor/audit/verbs/export.hpp"

namespace callgate::audit {

namespace {

/// The largest number of records of one run that share a line.
constexpr std::size_t max_together = 256;

ExportJson value_of(const ExportJson& value) {
    if (value.is_string()) return {{"stringValue", value}};
    if (value.is_boolean()) return {{"boolValue", value}};
    if (value.is_number_integer()) return {{"intValue", value.dump()}};
    if (value.is_number()) return {{"doubleValue", value}};
    ExportJson values = ExportJson::array();
    if (value.is_array())
        for (const ExportJson& one : value) values.push_back(value_of(one));
    return {{"arrayValue", {{"values", std::move(values)}}}};
}

void flatten(ExportJson& attributes, const std::string& name, const ExportJson& value) {
    if (value.is_object()) {
        for (const auto& [key, member] : value.items())
            flatten(attributes, name.empty() ? key : name + '.' + key, member);
        return;
    }
    if (!value.is_null()) attributes.push_back({{"key", name}, {"value", value_of(value)}});
}

struct Severity {
    int number;
    const char* text;
};

Severity otlp_severity_of(const Entry& entry) {
    if (entry.verdict == "kill") return {17, "ERROR"};
    return entry.decision() && entry.verdict != "allow" ? Severity{13, "WARN"} : Severity{9, "INFO"};
}

class Otlp : public Exporter {
public:
    using Exporter::Exporter;

    void add(const ExportedRecord& one) override {
        if (records_.size() == max_together || (!records_.empty() && one.host != host_)) finish();
        host_ = one.host;
        ExportJson attributes = ExportJson::array();
        for (const auto& [key, member] : one.record.items())
            if (key != "@timestamp") flatten(attributes, key, member);
        const Severity severity = otlp_severity_of(one.entry);
        const std::string time = std::to_string(one.time_ns);
        records_.push_back(
            {{"timeUnixNano", time},
             {"observedTimeUnixNano", time},
             {"severityNumber", severity.number},
             {"severityText", severity.text},
             {"eventName", one.entry.decision() ? "callgate.decision" : "callgate." + one.entry.action},
             {"body", {{"stringValue", one.message}}},
             {"attributes", std::move(attributes)}});
    }

    void finish() override {
        if (records_.empty()) return;
        ExportJson resource = ExportJson::array();
        flatten(resource, "service.name", "callgate");
        if (!host_.empty()) flatten(resource, "host.name", host_);
        const ExportJson scope = {{"scope", {{"name", "callgate.audit"}, {"version", "1.0"}}},
                                  {"logRecords", std::exchange(records_, ExportJson::array())}};
        write({{"resourceLogs", ExportJson::array({{{"resource", {{"attributes", std::move(resource)}}},
                                                    {"scopeLogs", ExportJson::array({scope})}}})}});
    }

private:
    ExportJson records_ = ExportJson::array();
    std::string host_;
};

}  // namespace

std::unique_ptr<Exporter> otlp_exporter(std::ostream& out) { return std::make_unique<Otlp>(out); }

}  // namespace callgate::audit
