// `callgate audit tail [-f]`: the last records, then new ones as they come.

#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <deque>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "base/escape.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/audit/read/lines.hpp"
#include "supervisor/audit/verbs/logs.hpp"
#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/write/log_file.hpp"

namespace callgate::audit {

namespace {

/// Waits until something in the log's directory has changed: the log grew, or its next segment came.
class Changes {
public:
    explicit Changes(const std::string& directory) : fd_(::inotify_init1(IN_CLOEXEC)) {
        if (fd_)
            watch_ = ::inotify_add_watch(fd_.get(), directory.c_str(),
                                         IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE);
    }
    /// Returns false if the directory cannot be watched.
    bool wait() {
        if (!fd_ || watch_ < 0) return false;
        alignas(inotify_event) std::array<char, 4096> events{};
        ssize_t got = 0;
        do {
            got = ::read(fd_.get(), events.data(), events.size());
        } while (got < 0 && errno == EINTR);
        return got > 0;
    }

private:
    UniqueFd fd_;
    int watch_ = -1;
};

using Record = std::pair<Entry, std::string>;

bool held(const std::string& path) {
    const Result<UniqueFd> file = open_for_reading(path);
    return file && ::flock(file->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// Whether the run of a log goes on. A run holds a lock on the file that it writes to. It keeps the lock on
/// the segment before until the new segment has one (log_file.hpp).
bool going_on(const std::string& first) {
    for (int look = 0; look < 2; ++look) {  // the lock may move to a new segment meanwhile
        if (held(first)) return true;
        for (unsigned number = 2;; ++number) {
            const std::string next = segment_path(first, number);
            if (next.empty() || ::access(next.c_str(), F_OK) != 0) break;
            if (held(next)) return true;
        }
    }
    return false;
}

/// The runs of a state directory, also those that begin meanwhile.
class AllRuns {
public:
    AllRuns(std::ostream& errors, const TailOptions& options, Selection selection)
        : state_(options.show.log.state),
          lines_(options.lines),
          selection_(std::move(selection)),
          bad_(errors) {
        const std::vector<std::string> logs = logs_in(state_);
        for (const std::string& path : logs) {
            known_.insert(path);
            const bool goes_on = going_on(path);
            if (goes_on || path == logs.back()) open(path, false);
            followed_ = followed_ || goes_on;
        }
    }

    /// Prints the records since the last call. The first call prints only the last records.
    void print(Rows& rows) {
        std::multimap<std::string, Record> found;
        for (const std::string& path : logs_in(state_))
            if (known_.insert(path).second) {
                open(path, true);
                followed_ = true;
            }
        for (Followed& one : runs_) {
            for (Reader::Step step; (step = one.reader.next()) != Reader::Step::end;) {
                if (step == Reader::Step::bad) {
                    bad_.add(one.reader);
                    continue;
                }
                const Entry& entry = one.reader.entry();
                one.read = true;
                one.ended = entry.action == "run.end";
                if (selection_.matches(entry)) found.emplace(entry.time, Record{entry, one.reader.line()});
                if (!live_ && found.size() > lines_) found.erase(found.begin());
            }
        }
        for (const auto& [time, record] : found) rows.add(record.first, record.second);
        rows.flush();
        live_ = true;
    }

    /// Whether there is more to come: a run goes on, or none has been followed yet. A run that was killed
    /// leaves no last record. A run that begins has neither lock nor record for a moment.
    [[nodiscard]] bool more() {
        return !followed_ || std::any_of(runs_.begin(), runs_.end(), [](const Followed& one) {
            return (one.begins && !one.read) || (!one.ended && going_on(one.first));
        });
    }
    [[nodiscard]] int finish() { return bad_.finish(); }

private:
    struct Followed {
        std::string first;
        Reader reader;
        bool begins;  // since this verb began
        bool read = false, ended = false;
    };
    void open(const std::string& path, bool begins) {
        if (auto reader = Reader::open(path)) runs_.push_back({path, std::move(*reader), begins});
    }

    const std::string state_;
    const std::size_t lines_;
    Selection selection_;
    BadLines bad_;
    std::set<std::string> known_;
    std::deque<Followed> runs_;
    bool live_ = false, followed_ = false;
};

int tail_all(std::ostream& out, std::ostream& errors, const TailOptions& options) {
    Expected<Selection> selection = Selection::make(options.show.filter, ::time(nullptr));
    const std::string& state = options.show.log.state;
    if (!selection) {
        errors << terminal_safe(selection.error().text) << '\n';
        return exit_wrong_use;
    }
    Changes changes(state);  // before the first look, so that no run is missed
    AllRuns runs(errors, options, std::move(*selection));
    Rows rows(out, options.show.json, options.show.colour, true);
    do {
        runs.print(rows);
    } while (runs.more() && changes.wait());
    runs.print(rows);  // records that came between the last read and the end
    return runs.finish();
}

}  // namespace

int tail(std::ostream& out, std::ostream& errors, const TailOptions& options) {
    if (options.follow && options.show.log.log.empty()) return tail_all(out, errors, options);
    std::optional<Opened> log = open_log(errors, options.show.log, options.show.filter);
    if (!log) return exit_wrong_use;
    Reader& reader = log->reader;
    const std::string parent = std::filesystem::path(reader.path()).parent_path().string();
    Changes changes(parent.empty() ? "." : parent);  // before the first read, so that no change is missed
    Rows rows(out, options.show.json, options.show.colour);
    std::deque<Record> kept;
    int status = 0;
    bool ended = false, live = false;
    do {
        for (Reader::Step step; (step = reader.next()) != Reader::Step::end;) {
            if (step == Reader::Step::bad) {
                say_bad(errors, reader);
                status = exit_finding;
                continue;
            }
            // A file that several runs share goes on after the end of one.
            ended = reader.entry().action == "run.end";
            if (!log->selection.matches(reader.entry())) continue;
            if (live) {
                rows.add(reader.entry(), reader.line());
                continue;
            }
            kept.emplace_back(reader.entry(), reader.line());
            if (kept.size() > options.lines) kept.pop_front();
        }
        for (const auto& [entry, line] : std::exchange(kept, {})) rows.add(entry, line);
        rows.flush();
        live = true;
    } while (options.follow && !ended && changes.wait());
    say_torn(errors, reader);
    return status;
}

}  // namespace callgate::audit
