// Everything that a report says, gathered from one log in one pass and within bounded memory.
//
// Owns copies of what it keeps. An attacker may have chosen the log's texts. They are kept as they are in the
// log, so they are not yet safe for any page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "rules/model/operation.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/report/fix.hpp"

namespace callgate::audit::report {

/// The outcome of a call in the report. The call was allowed or refused, or audit mode let it go on although
/// the rules would have refused or asked.
enum class Outcome : std::uint8_t { allowed, refused, would };
inline constexpr std::size_t outcomes = 3;

/// Calls by outcome.
using Tally = std::array<std::uint64_t, outcomes>;

[[nodiscard]] inline Outcome outcome_of(const Entry& entry) {
    if (entry.verdict == "allow") return Outcome::allowed;
    return entry.refused() ? Outcome::refused : Outcome::would;
}

/// `calls`: the equal calls that a record states.
inline void count(Tally& tally, Outcome outcome, std::uint64_t calls) {
    tally[static_cast<std::size_t>(outcome)] += calls;
}

/// Texts that many records share, kept once and named by number. Memory is bounded, because an attacker may
/// choose how many different texts a log holds, and how long they are.
class Strings {
public:
    /// Holds at most `max_bytes` of texts, each counted with the overhead of its entry.
    explicit Strings(std::size_t max_bytes) : left_(max_bytes) {}

    /// The number of this text; empty if it is new and there is no room for it.
    [[nodiscard]] std::optional<std::uint32_t> add(std::string_view text);
    [[nodiscard]] const std::string& text(std::uint32_t number) const { return texts_[number]; }
    [[nodiscard]] const std::deque<std::string>& all() const { return texts_; }

private:
    std::size_t left_;
    std::deque<std::string> texts_;  // a deque: views of its elements stay valid
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// Numbers the texts of one record. The record is listed only if each of them has a number.
class Numbering {
public:
    explicit Numbering(Strings& strings) : strings_(strings) {}
    /// Returns 0 if there is no room.
    [[nodiscard]] std::uint32_t operator()(std::string_view text) {
        const std::optional<std::uint32_t> number = strings_.add(text);
        room_ = room_ && number;
        return number.value_or(0);
    }
    [[nodiscard]] bool room() const { return room_; }

private:
    Strings& strings_;
    bool room_ = true;
};

/// `beneath`: a directory that stands for the unlisted objects in it. `others`: all other objects.
enum class ObjectKind : std::uint8_t { path, socket, name, host, beneath, others };

struct Object {
    static constexpr std::uint32_t none = UINT32_MAX;
    std::uint32_t text = none;
    std::uint32_t second = none;  // rename, link: the new name
    std::uint32_t host = none;    // of an internet address
    ObjectKind kind = ObjectKind::others;
    rules::OperationSet operations{};
    Tally calls{};
};

/// The objects of calls, with the number of times that each was allowed and refused. Beyond the bound a path
/// counts for its directory, so the tree stays right at every level that it shows.
class Objects {
public:
    static constexpr std::size_t most = 100'000;

    explicit Objects(Strings& strings);

    /// Counts the call, and returns the number of its object.
    std::uint32_t add(const Entry& entry, Outcome outcome);
    [[nodiscard]] const std::vector<Object>& all() const { return objects_; }
    /// The number of calls whose object is not listed by itself.
    [[nodiscard]] std::uint64_t rolled_up() const { return rolled_up_; }

private:
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, ObjectKind>;
    std::uint32_t find_or_add(const Entry& entry);
    std::uint32_t roll_up(std::string_view path);
    /// Returns `others` if there is no room.
    std::uint32_t insert(const Object& object, std::size_t limit);

    Strings* strings_;
    std::map<Key, std::uint32_t> numbers_;
    std::vector<Object> objects_;  // the first one stands for all unlisted objects
    std::uint64_t rolled_up_ = 0;
};

struct Process {
    static constexpr std::uint32_t none = UINT32_MAX;
    int pid = 0, parent_pid = 0;
    std::uint64_t start_time = 0;
    std::uint32_t run = 0;
    std::uint32_t parent = none;            // its number, if the parent is on record too
    std::vector<std::uint32_t> programs{};  // one after the other
    std::int64_t first = 0, last = 0;       // microseconds since the epoch
    Tally calls{};
};

/// The processes that made calls, with their parents as far as these are on record.
class Processes {
public:
    static constexpr std::size_t most = 20'000, max_programs = 16;

    explicit Processes(Strings& strings);

    /// Counts the call, and returns the number of its process. The first process stands for all unlisted
    /// ones.
    std::uint32_t add(const Entry& entry, std::uint32_t run, std::int64_t time, Outcome outcome);
    /// Joins children to parents. Call it once, after all records were added.
    void join();
    [[nodiscard]] const std::vector<Process>& all() const { return processes_; }

private:
    using Key = std::tuple<std::uint32_t, int, std::uint64_t>;
    Strings* strings_;
    std::map<Key, std::uint32_t>
        numbers_;  // by run, pid and start: a pid's processes in order of their start
    std::vector<Process> processes_;
};

/// Counts calls over time, in a fixed number of steps. When a later call does not fit, steps become twice as
/// wide. So memory is constant, however long the run was.
class Histogram {
public:
    static constexpr std::size_t max_steps = 480;

    /// `time`: microseconds since the epoch. A time before the first call counts as the time of the first
    /// call: the log was edited, or the clock was set back.
    void add(std::int64_t time, Outcome outcome, std::uint64_t calls = 1);

    [[nodiscard]] std::int64_t start() const { return start_; }
    [[nodiscard]] std::int64_t width() const { return width_; }  // of a step, in microseconds
    [[nodiscard]] const std::vector<std::array<std::uint64_t, outcomes>>& steps() const { return steps_; }

private:
    void widen();

    std::int64_t start_ = 0, width_ = 100;
    std::vector<std::array<std::uint64_t, outcomes>> steps_;
};

/// Texts are numbers of Strings, `process` of Processes.
struct CallKind {
    Outcome outcome = Outcome::allowed;
    std::uint32_t verdict = 0, operation = 0, rule = 0, decided_by = 0, mechanism = 0, error = 0, reason = 0,
                  program = 0, process = 0;
    std::uint32_t operations = 0;  // as bits, in the order of rules::Operation
    auto operator<=>(const CallKind&) const = default;
};

/// A call, or another record if `kind` is `event`.
struct Call {
    static constexpr std::uint32_t event = UINT32_MAX;
    std::int64_t time = 0;  // microseconds since the epoch
    std::uint64_t sequence = 0;
    std::uint32_t kind = 0;
    std::uint32_t object = 0;  // an event's text
    std::uint64_t count = 1;   // the equal calls that the record states
};

/// The calls one by one, as columns.
///
/// Calls that are alike share a kind, which is kept once. So a call takes a few bytes here and in the page.
/// The first allowed calls and the first refused calls are listed; the rest is only counted.
class Calls {
public:
    static constexpr std::size_t max_of_each = 100'000, max_kinds = 200'000, max_events = 10'000;

    explicit Calls(Strings& strings) : strings_(&strings) {}

    void add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t process,
             std::uint32_t object);
    void add_event(const Entry& entry, std::int64_t time);

    [[nodiscard]] const std::vector<CallKind>& kinds() const { return kinds_; }
    [[nodiscard]] const std::vector<Call>& all() const { return calls_; }
    /// The number of calls that are not listed; `outcomes` stands for events.
    [[nodiscard]] std::uint64_t cut(Outcome outcome) const { return cut_[static_cast<std::size_t>(outcome)]; }
    [[nodiscard]] std::uint64_t events_cut() const { return events_cut_; }

private:
    Strings* strings_;
    std::map<CallKind, std::uint32_t> numbers_;
    std::vector<CallKind> kinds_;
    std::vector<Call> calls_;
    std::size_t allowed_ = 0, not_allowed_ = 0, events_ = 0;
    Tally cut_{};
    std::uint64_t events_cut_ = 0;
};

struct Denial {
    Outcome outcome = Outcome::refused;
    std::uint32_t verdict = 0, operation = 0, rule = 0, decided_by = 0, error = 0, reason = 0, program = 0;
    std::uint32_t object = 0;               // of Objects
    std::uint64_t count = 0, sequence = 0;  // of the first one
    std::int64_t first = 0, last = 0;       // microseconds since the epoch
    Fix fix{};
};

/// The calls that were refused, or would have been. Calls of the same operation, rule and object are one
/// entry, which names the option that would allow them.
class Denials {
public:
    static constexpr std::size_t most = 5'000, max_fix_bytes = 16U << 20;

    explicit Denials(Strings& strings) : strings_(&strings) {}

    /// `line`: the record, read again for the fix when it is the first of its kind.
    void add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t object,
             std::string_view line);
    /// In the order of their first calls.
    [[nodiscard]] const std::vector<Denial>& all() const { return denials_; }
    /// Calls of kinds that are not listed.
    [[nodiscard]] std::uint64_t cut() const { return cut_; }

private:
    using Key = std::tuple<Outcome, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
    Strings* strings_;
    std::map<Key, std::uint32_t> numbers_;
    std::vector<Denial> denials_;
    std::size_t fix_bytes_ = 0;
    std::uint64_t cut_ = 0;
};

/// A run of the log, by its first and last record.
struct Run {
    std::string name, mode, workdir, version, kernel, rules_sha256;
    std::vector<std::string> command, profiles, degraded;
    std::uint64_t landlock_abi = 0;
    std::int64_t started = 0, ended = 0;  // microseconds since the epoch; 0: not on record
    std::string outcome;                  // "" if the end is not on record
    std::optional<int> exit_code, signal;
    std::uint64_t duration_ms = 0;
};

struct Contents {
    static constexpr std::size_t max_runs = 64, max_rules = 10'000, max_string_bytes = 32U << 20;

    std::string file;
    std::uint64_t records = 0, bad_lines = 0;
    bool torn = false;
    std::string head;  // the last record's hash, as it is written there
    std::vector<Run> runs;
    std::uint64_t runs_cut = 0;  // records of further runs

    Strings strings{max_string_bytes};
    Objects objects{strings};
    Processes processes{strings};
    Calls calls{strings};
    Denials denials{strings};
    Histogram times;
    std::map<std::uint32_t, Tally> rules;  // by id, or "default"; "": no rule decided
    std::uint64_t rules_cut = 0;           // calls of further rules
    Tally calls_by_outcome{};
    std::map<std::string, Tally> verdicts;  // allow, ask, deny, kill

    Contents() = default;
    Contents(const Contents&) = delete;
    Contents& operator=(const Contents&) = delete;
};

/// Whether the program itself ended well: exit status 0.
[[nodiscard]] bool ended_well(const Run& run);
/// "exited 0", "signaled 9", "timeout"; "no end on record".
[[nodiscard]] std::string outcome_text(const Run& run);

}  // namespace callgate::audit::report
