// Reads a log back, line by line, over all its segments.
//
// The reader owns the open file and one line. The file is hostile: a line may be anything (longer than
// memory, nested, no UTF-8, no JSON, members of the wrong type). Memory is bounded by `max_line`. A line that
// is no record is reported with its number, and reading goes on behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.hpp"
#include "base/result.hpp"
#include "supervisor/audit/write/record.hpp"

namespace callgate::audit {

/// A record as readers need it. Text is as the JSON states it: not yet safe for a terminal. Members that a
/// record does not have are empty or 0.
struct Entry {
    std::string time, action, run, mode;
    std::uint64_t sequence = 0;
    int pid = 0;
    int parent = 0;                // 0: not known
    std::uint64_t start_time = 0;  // of the process, clock ticks since boot; 0: not known
    // Members of a decision:
    std::string verdict, decided_by, mechanism, operation, rule, error, reason;
    std::string object;         // a path, "203.0.113.4:443", "[::1]:80", "@name"
    std::string second_object;  // rename, link: the new name
    std::string domain;         // the host that the rule named
    std::string host;           // of an internet address: the host that the rule named, else the address
    std::string program;        // executable
    std::string socket_type;    // of a unix socket
    std::vector<std::string> operations;
    std::uint64_t count = 1;  // the equal calls that the record states
    // Members of other records:
    std::string call, kind;  // of refused calls
    std::uint64_t of_sequence = 0, torn_bytes = 0;
    std::vector<std::string> command, profiles;
    std::string outcome, workdir, temporary_directory;
    std::optional<int> exit_code, signal;
    std::optional<Counts> counts;

    [[nodiscard]] bool decision() const { return !verdict.empty(); }
    /// Whether the caller was refused. In audit mode it mostly was not, whatever the verdict.
    [[nodiscard]] bool refused() const { return mechanism == "errno" || mechanism == "kill"; }
};

/// The start time in a process.entity_id: "4312@88123" → 88123. Returns 0 if it does not have that form.
[[nodiscard]] std::uint64_t start_of(std::string_view entity);

/// Parses one line without its newline. Fails if it is no record.
[[nodiscard]] Expected<Entry> parse_record(std::string_view line);

/// Fails if this version does not know records of `schema`.
[[nodiscard]] Expected<void> check_schema(const std::string& schema);

/// Parses a decision as callgate writes it, many times as fast and in place. Returns true if `line` is one;
/// `entry` then is what parse_record returns. False says nothing about the line.
[[nodiscard]] bool scan_decision(std::string_view line, Entry& entry);

class Reader {
public:
    /// Opens a regular file. Errors: EINVAL for anything else, else those of open(2).
    static Result<Reader> open(const std::string& path);
    Reader(Reader&&) noexcept;
    ~Reader();

    enum class Step { record, bad, end };
    /// `record`: `line` and `entry` are those of the next record. `bad`: `problem` says why the line is no
    /// record. `end`: nothing more for now; call it again when the file has grown.
    Step next();

    [[nodiscard]] const Entry& entry() const;
    [[nodiscard]] std::string_view line() const;  // without its newline; valid until the next step
    [[nodiscard]] const std::string& problem() const;
    /// The file and line that the last step was about, from 1.
    [[nodiscard]] const std::string& path() const;
    [[nodiscard]] std::uint64_t line_number() const;
    /// At `end`: the file's last line is unfinished.
    [[nodiscard]] bool torn() const;

private:
    struct State;
    explicit Reader(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

/// The last whole record of the file at `path` (one segment).
[[nodiscard]] std::optional<Entry> last_record(const std::string& path);

/// "x.jsonl" → "x.2.jsonl", "x.3.jsonl", ...; "" for a name that has no segments.
[[nodiscard]] std::string segment_path(const std::string& first, unsigned number);
/// Whether `name` is a log's second or later segment.
[[nodiscard]] bool is_later_segment(std::string_view name);

}  // namespace callgate::audit
