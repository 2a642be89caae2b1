// What the verbs of show.hpp have in common: opening a log with its filter, and rows of records.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/selection.hpp"
#include "supervisor/audit/verbs/table.hpp"

namespace callgate::audit {

struct Opened {
    Selection selection;
    Reader reader;
};

/// Nothing, and one line on `errors`, where there is no such log or the filter is wrong.
[[nodiscard]] std::optional<Opened> open_log(std::ostream& errors, const LogChoice& choice,
                                             const Filter& filter);

/// "FILE:LINE: why this line is no record"
void say_bad(std::ostream& errors, const Reader& reader);

/// Lines that are no records: the first hundred are said one by one, the rest is counted.
class BadLines {
public:
    /// The first `most` are named.
    explicit BadLines(std::ostream& errors, std::uint64_t most = 100) : errors_(errors), max_(most) {}
    void add(const Reader& reader) { add(reader.path(), reader.line_number(), reader.problem()); }
    void add(const std::string& path, std::uint64_t line, const std::string& problem);
    /// Says how many more there were. Returns exit_finding where there was any, else 0.
    [[nodiscard]] int finish();
    [[nodiscard]] std::uint64_t count() const { return count_; }

private:
    std::ostream& errors_;
    const std::uint64_t max_;
    std::uint64_t count_ = 0;
};
/// At the end: whether the last line is unfinished.
void say_torn(std::ostream& errors, const Reader& reader);

/// A command as a shell would read it, cut to what a row has room for.
[[nodiscard]] std::string command_text(const std::vector<std::string>& command);

/// "deny", "would deny", "ask, denied", ...: of a decision.
[[nodiscard]] std::string verdict_text(const Entry& entry);
/// What a record that is no decision says, in one line.
[[nodiscard]] std::string other_text(const Entry& entry);

/// Records as rows of a table, or as the lines that they are.
class Rows {
public:
    /// `several`: of several runs, which each row then names.
    Rows(std::ostream& out, bool json, bool colour, bool several = false);
    void add(const Entry& entry, std::string_view line);
    /// To be called for each record that is read, shown or not: now and then what is held is written, so that
    /// rows of a long log come as they are found.
    void pass();
    void flush();

private:
    std::ostream& out_;
    std::optional<Table> table_;
    std::uint64_t passed_ = 0;
    bool several_ = false;
};

}  // namespace callgate::audit
