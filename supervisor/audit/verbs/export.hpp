// `callgate audit export`: a log's records in the formats that other systems take.
//
// Every record that the filter lets through becomes one record of the other format. Nothing is dropped:
// fields that a format lacks are kept under its member for such fields. Logs are hostile. The output is ASCII
// JSON, or CSV without control characters. A malformed line is an error with its number.
#pragma once

#include <iosfwd>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/show.hpp"

namespace callgate::audit {

using ExportJson = nlohmann::ordered_json;

/// A record to be exported: the line as JSON, and the fields that most formats need.
struct ExportedRecord {
    const ExportJson& record;
    const Entry& entry;
    std::int64_t time_ns = 0;  // since 1970; 0: malformed
    std::string host;          // on which the run took place; "": unknown
    std::string message;       // one line for people, not yet safe for a terminal
};

/// A format. Writes to `out`, which outlives it. `finish` is called once, at the end.
class Exporter {
public:
    explicit Exporter(std::ostream& out) : out_(out) {}
    virtual ~Exporter() = default;
    Exporter(const Exporter&) = delete;
    Exporter& operator=(const Exporter&) = delete;
    virtual void add(const ExportedRecord& one) = 0;
    virtual void finish() {}

protected:
    /// Writes one line of ASCII.
    void write(const ExportJson& value);
    std::ostream& out_;
};

[[nodiscard]] std::unique_ptr<Exporter> ecs_exporter(std::ostream& out);
[[nodiscard]] std::unique_ptr<Exporter> ocsf_exporter(std::ostream& out);
[[nodiscard]] std::unique_ptr<Exporter> otlp_exporter(std::ostream& out);
[[nodiscard]] std::unique_ptr<Exporter> csv_exporter(std::ostream& out);

/// The names of the formats.
[[nodiscard]] std::span<const std::string_view> export_formats();

struct ExportOptions {
    LogChoice log{};
    Filter filter{};
    std::string format{};  // one of export_formats
};

/// Returns 0 if good, 1 if some lines were malformed, 125 for a wrong log, format or filter.
[[nodiscard]] int export_log(std::ostream& out, std::ostream& errors, const ExportOptions& options);

/// The string at a path of members; "" if there is none.
[[nodiscard]] std::string export_text(const ExportJson& value, std::initializer_list<const char*> path);
/// Whether the call was refused, or would have been: "deny", "would deny", ...
[[nodiscard]] bool was_refused(const Entry& entry);

}  // namespace callgate::audit
