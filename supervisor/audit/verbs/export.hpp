// `callgate audit export`: a log's records in the formats that other systems take.
//
// Every record that the filter lets through becomes one of the other format, nothing is dropped: what a
// format has no place for is kept under its member for that. Logs are hostile; what is written is ASCII JSON
// (or CSV without control characters), and a line that is no record is an error with its number.
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

/// One record on its way out: the line as JSON, and what most formats need of it.
struct ExportedRecord {
    const ExportJson& record;
    const Entry& entry;
    std::int64_t time_ns = 0;  // since 1970; 0: it was no time
    std::string host;          // where the run took place; "" not known
    std::string message;       // one line for people, not yet safe for a terminal
};

/// A format. Writes to `out`, which outlives it; `finish` once, at the end.
class Exporter {
public:
    explicit Exporter(std::ostream& out) : out_(out) {}
    virtual ~Exporter() = default;
    Exporter(const Exporter&) = delete;
    Exporter& operator=(const Exporter&) = delete;
    virtual void add(const ExportedRecord& one) = 0;
    virtual void finish() {}

protected:
    /// ASCII, one line.
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

/// 0 good, 1 some lines were no records, 125 no such log, format or filter.
[[nodiscard]] int export_log(std::ostream& out, std::ostream& errors, const ExportOptions& options);

/// The string at a path of members, "" where there is none.
[[nodiscard]] std::string export_text(const ExportJson& value, std::initializer_list<const char*> path);
/// What refuses or would have: "deny", "would deny", ...
[[nodiscard]] bool was_refused(const Entry& entry);

}  // namespace callgate::audit
