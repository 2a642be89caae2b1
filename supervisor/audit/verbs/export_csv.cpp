// Comma-separated values (RFC 4180): one row per record, with the same columns for all.
//
// The target may have chosen a cell's text. So control characters are escaped. A cell that a spreadsheet
// would take for a formula begins with an apostrophe.
#include <ostream>

#include "base/escape.hpp"
#include "base/words.hpp"
#include "supervisor/audit/verbs/export.hpp"

namespace callgate::audit {

namespace {

std::string cell(const std::string& text) {
    std::string safe = terminal_safe(text);
    if (!safe.empty() && std::string_view("=+-@").find(safe[0]) != std::string_view::npos)
        safe.insert(0, 1, '\'');
    if (safe.find_first_of(",\"") == std::string::npos) return safe;
    std::string quoted = "\"";
    for (const char one : safe) quoted += one == '"' ? "\"\"" : std::string(1, one);
    return quoted + '"';
}

std::string number_or_empty(std::uint64_t value) { return value == 0 ? "" : std::to_string(value); }

class Csv : public Exporter {
public:
    explicit Csv(std::ostream& out) : Exporter(out) {
        out_
            << "time,run,sequence,action,mode,verdict,decided_by,mechanism,errno,rule,reason,operation,"
               "operations,"
               "object,second_object,domain,pid,parent_pid,program,user,of_sequence,outcome,message,hash\r\n";
    }

    void add(const ExportedRecord& one) override {
        const Entry& entry = one.entry;
        const std::string cells[] = {entry.time,
                                     entry.run,
                                     std::to_string(entry.sequence),
                                     entry.action,
                                     entry.mode,
                                     entry.verdict,
                                     entry.decided_by,
                                     entry.mechanism,
                                     entry.error,
                                     entry.rule,
                                     entry.reason,
                                     entry.operation,
                                     joined(entry.operations, " "),
                                     entry.object,
                                     export_text(one.record, {"callgate", "second_object"}),
                                     entry.domain,
                                     number_or_empty(static_cast<std::uint64_t>(entry.pid)),
                                     number_or_empty(static_cast<std::uint64_t>(entry.parent)),
                                     entry.program,
                                     export_text(one.record, {"user", "id"}),
                                     number_or_empty(entry.of_sequence),
                                     entry.outcome,
                                     one.message,
                                     export_text(one.record, {"integrity", "hash"})};
        bool first = true;
        for (const std::string& text : cells) {
            out_ << (first ? "" : ",") << cell(text);
            first = false;
        }
        out_ << "\r\n";
    }
};

}  // namespace

std::unique_ptr<Exporter> csv_exporter(std::ostream& out) { return std::make_unique<Csv>(out); }

}  // namespace callgate::audit
