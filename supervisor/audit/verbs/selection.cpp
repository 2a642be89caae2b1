#include "supervisor/audit/verbs/selection.hpp"

#include <charconv>

#include "rules/model/limits.hpp"
#include "supervisor/audit/write/format.hpp"

namespace callgate::audit {

namespace {

std::string timestamp(const std::timespec& when) {
    Buffer out(64);
    append_timestamp(out, when);
    return std::string(out.view());
}

bool digit(char one) { return one >= '0' && one <= '9'; }

/// Reads exactly `count` digits between `low` and `high` and moves `at` behind them.
bool take_number(const char*& at, int count, int low, int high, int& value) {
    value = 0;
    for (int index = 0; index < count; ++index, ++at) {
        if (!digit(*at)) return false;
        value = value * 10 + (*at - '0');
    }
    return value >= low && value <= high;
}

bool take(const char*& at, char one) {
    if (*at != one) return false;
    ++at;
    return true;
}

/// ".5" → 500000000. Takes nothing if there is no point.
bool take_fraction(const char*& at, long& nanoseconds) {
    nanoseconds = 0;
    if (!take(at, '.')) return true;
    if (!digit(*at)) return false;
    for (long unit = 100'000'000; digit(*at); ++at, unit /= 10) nanoseconds += unit * (*at - '0');
    return true;
}

/// "Z", "+02:00", "" → seconds east of UTC.
bool take_zone(const char*& at, int& seconds) {
    seconds = 0;
    if (take(at, 'Z')) return true;
    const bool west = *at == '-';
    if (!west && *at != '+') return true;
    ++at;
    int hours = 0, minutes = 0;
    if (!take_number(at, 2, 0, 14, hours)) return false;
    take(at, ':');
    if (!take_number(at, 2, 0, 59, minutes)) return false;
    seconds = (hours * 60 + minutes) * 60 * (west ? -1 : 1);
    return true;
}

/// Globs match text, not paths: people write *.ssh* for anything with .ssh in it. Empty for an empty pattern.
Expected<std::optional<rules::Glob>> compile(const std::string& pattern, const char* what) {
    if (pattern.empty()) return std::optional<rules::Glob>();
    Expected<rules::Glob> glob = rules::Glob::compile(pattern, rules::GlobKind::text);
    if (!glob) return Problem{std::string(what) + ": " + glob.error().text};
    return std::optional<rules::Glob>(std::move(*glob));
}

/// The time in the form of records; "" if none is given.
Expected<std::string> normalise(const std::string& time, const char* what, std::time_t now) {
    if (time.empty()) return std::string();
    const std::optional<std::string> parsed = parse_time(time, now);
    if (parsed) return *parsed;
    return Problem{std::string(what) +
                   ": expected a time (2026-11-20T10:11:12, UTC without a zone) or a time span (10m)"};
}

/// Moves what `from` holds to `to`.
template <class Value, class To>
Expected<void> put(Expected<Value> from, To& to) {
    if (!from) return from.error();
    to = std::move(*from);
    return {};
}

}  // namespace

std::optional<std::string> parse_time(const std::string& text, std::time_t now) {
    if (text.find('-') == std::string::npos) {
        // A bare number is more likely half a date than a count of seconds.
        if (text.empty() || digit(text.back())) return std::nullopt;
        const auto span = rules::parse_duration(text);
        if (!span) return std::nullopt;
        const auto milliseconds = span->count();
        const std::time_t seconds = milliseconds / 1000 + (milliseconds % 1000 != 0 ? 1 : 0);
        return timestamp({.tv_sec = seconds < now ? now - seconds : 0, .tv_nsec = 0});
    }
    const char* at = text.c_str();
    std::tm parts{};
    int year = 0, month = 0, zone = 0;
    long nanoseconds = 0;
    if (!take_number(at, 4, 1970, 9999, year) || !take(at, '-') || !take_number(at, 2, 1, 12, month) ||
        !take(at, '-') || !take_number(at, 2, 1, 31, parts.tm_mday)) {
        return std::nullopt;
    }
    if (take(at, 'T') || take(at, ' ')) {
        if (!take_number(at, 2, 0, 23, parts.tm_hour) || !take(at, ':') ||
            !take_number(at, 2, 0, 59, parts.tm_min)) {
            return std::nullopt;
        }
        if (take(at, ':') && !(take_number(at, 2, 0, 60, parts.tm_sec) && take_fraction(at, nanoseconds))) {
            return std::nullopt;
        }
        if (!take_zone(at, zone)) return std::nullopt;
    }
    if (at != text.c_str() + text.size()) return std::nullopt;
    parts.tm_year = year - 1900;
    parts.tm_mon = month - 1;
    return timestamp({.tv_sec = ::timegm(&parts) - zone, .tv_nsec = nanoseconds});
}

Expected<Selection> Selection::make(const Filter& filter, std::time_t now) {
    Selection selection;
    if (const auto read = selection.read(filter, now); !read) return read.error();
    return selection;
}

Expected<void> Selection::read(const Filter& filter, std::time_t now) {
    filter_ = filter;
    if (!filter.verdict.empty() && filter.verdict != "allow" && filter.verdict != "ask" &&
        filter.verdict != "deny" && filter.verdict != "kill")
        return Problem{"--verdict: expected allow, ask, deny or kill"};
    if (!filter.operation.empty()) {
        const auto operations = rules::parse_operations(filter.operation);
        if (!operations)
            return Problem{
                "--operation: expected read, write, modify, create, delete, metadata, execute, connect or "
                "bind"};
        operations_ = *operations;
    }
    if (auto object = put(compile(filter.object, "--object"), object_); !object) return object;
    if (auto program = put(compile(filter.program, "--program"), program_); !program) return program;
    if (!filter.tree.empty() && !read_tree(filter.tree))
        return Problem{"--tree: expected a pid such as 4312, or pid@start as process.entity_id has it"};
    if (auto since = put(normalise(filter.since, "--since", now), filter_.since); !since) return since;
    if (auto until = put(normalise(filter.until, "--until", now), filter_.until); !until) return until;
    decisions_only_ = !filter.verdict.empty() || !filter.operation.empty() || !filter.rule.empty() ||
                      !filter.object.empty() || !filter.program.empty() || !filter.tree.empty();
    return {};
}

bool Selection::read_tree(const std::string& text) {
    int pid = 0;
    const char* const end = text.data() + text.size();
    const auto [after, failed] = std::from_chars(text.data(), end, pid);
    if (failed != std::errc{} || pid <= 0 || (after != end && *after != '@')) return false;
    tree_[pid] = start_of(text);
    return true;
}

bool Selection::in_tree(const Entry& entry) {
    if (entry.pid == 0) return false;
    const auto known = tree_.find(entry.pid);
    if (known != tree_.end() && (known->second == 0 || known->second == entry.start_time)) {
        known->second = entry.start_time;
        return true;
    }
    // Another process may have this pid by now.
    if (!tree_.contains(entry.parent)) return false;
    tree_[entry.pid] = entry.start_time;
    return true;
}

bool Selection::matches(const Entry& entry) {
    if (!filter_.tree.empty() && !in_tree(entry)) return false;
    if (!filter_.since.empty() && entry.time < filter_.since) return false;
    if (!filter_.until.empty() && entry.time > filter_.until) return false;
    if (!decisions_only_) return true;
    if (!entry.decision()) return false;
    if (!filter_.verdict.empty() && entry.verdict != filter_.verdict) return false;
    if (!filter_.rule.empty() && entry.rule != filter_.rule) return false;
    if (!operations_.empty()) {
        const auto operation = rules::parse_operations(entry.operation);
        if (!operation || !operations_.contains_all(*operation)) return false;
    }
    if (object_ && !object_->matches(entry.object)) return false;
    return !program_ || program_->matches(entry.program);
}

}  // namespace callgate::audit
