// Shared parts of the verbs of show.hpp: they open a log with its filter, and print records as rows.
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

/// If there is no such log or the filter is wrong, prints one line on `errors` and returns nothing.
[[nodiscard]] std::optional<Opened> open_log(std::ostream& errors, const LogChoice& choice,
                                             const Filter& filter);

/// Prints "FILE:LINE: why this line is malformed".
void say_bad(std::ostream& errors, const Reader& reader);

/// Reports malformed lines: the first hundred one by one, the rest as a count.
class BadLines {
public:
    /// The first `most` lines are named.
    explicit BadLines(std::ostream& errors, std::uint64_t most = 100) : errors_(errors), max_(most) {}
    void add(const Reader& reader) { add(reader.path(), reader.line_number(), reader.problem()); }
    void add(const std::string& path, std::uint64_t line, const std::string& problem);
    /// Prints how many more there were. Returns exit_finding if there was any, else 0.
    [[nodiscard]] int finish();
    [[nodiscard]] std::uint64_t count() const { return count_; }

private:
    std::ostream& errors_;
    const std::uint64_t max_;
    std::uint64_t count_ = 0;
};
/// At the end of the log: prints a line if the last record is unfinished.
void say_torn(std::ostream& errors, const Reader& reader);

/// Reads the log to its end and calls `each` with every record. Reports malformed lines and an unfinished
/// end. Returns exit_finding if there was a malformed line, else 0.
template <class Each>
[[nodiscard]] int for_each_record(Reader& reader, std::ostream& errors, Each each) {
    BadLines bad(errors);
    for (Reader::Step step; (step = reader.next()) != Reader::Step::end;)
        step == Reader::Step::bad ? bad.add(reader) : each(reader.entry());
    const int status = bad.finish();
    say_torn(errors, reader);
    return status;
}

/// A command as a shell would read it, cut to the width of a row.
[[nodiscard]] std::string command_text(const std::vector<std::string>& command);

/// The verdict of a decision: "deny", "would deny", "ask, denied", ...
[[nodiscard]] std::string verdict_text(const Entry& entry);
/// A record that is not a decision, as text in one line.
[[nodiscard]] std::string other_text(const Entry& entry);

/// Prints records as rows of a table, or as the log's own lines.
class Rows {
public:
    /// `several`: the records belong to several runs, so each row names its run.
    Rows(std::ostream& out, bool json, bool colour, bool several = false);
    void add(const Entry& entry, std::string_view line);
    /// Call it for each record that is read, shown or not. It writes held rows now and then, so that rows of
    /// a long log appear as they are found.
    void pass();
    void flush();

private:
    std::ostream& out_;
    std::optional<Table> table_;
    std::uint64_t passed_ = 0;
    bool several_ = false;
};

}  // namespace callgate::audit
