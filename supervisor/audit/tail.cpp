// `callgate audit tail [-f]`: the last records, then those that come.

#include <poll.h>
#include <sys/inotify.h>

#include <array>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <ostream>
#include <utility>

#include "agent/unique_fd.hpp"
#include "supervisor/audit/show.hpp"
#include "supervisor/audit/show_rows.hpp"

namespace callgate::audit {

namespace {

/// Waits until something in the log's directory has changed: the log grew, or its next segment came.
class Changes {
public:
    explicit Changes(const std::string& path) : fd_(::inotify_init1(IN_CLOEXEC)) {
        const std::string parent = std::filesystem::path(path).parent_path().string();
        const std::string directory = parent.empty() ? "." : parent;
        if (fd_)
            watch_ = ::inotify_add_watch(fd_.get(), directory.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO);
    }
    /// False where it cannot be watched.
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

}  // namespace

int tail(std::ostream& out, std::ostream& errors, const TailOptions& options) {
    std::optional<Opened> log = open_log(errors, options.show.log, options.show.filter);
    if (!log) return exit_wrong_use;
    Reader& reader = log->reader;
    Changes changes(reader.path());  // before the first read, so that nothing falls between
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
