#include "supervisor/audit/verbs/prune.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <ostream>
#include <vector>

#include "base/escape.hpp"
#include "base/unique_fd.hpp"
#include "rules/model/limits.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/logs.hpp"
#include "supervisor/audit/write/log_file.hpp"

namespace callgate::audit {

namespace {

struct Segments {
    std::vector<std::string> paths;  // first to last
    std::uint64_t bytes = 0;
    std::time_t written = 0;  // the newest of them
    bool in_use = false;
};

Segments segments_of(const std::string& first) {
    Segments found;
    for (unsigned number = 1;; ++number) {
        const std::string path = number == 1 ? first : segment_path(first, number);
        const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat status {};
        if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return found;
        if (::flock(fd.get(), LOCK_SH | LOCK_NB) != 0) found.in_use = true;
        found.paths.push_back(path);
        found.bytes += static_cast<std::uint64_t>(status.st_size);
        found.written = std::max(found.written, status.st_mtim.tv_sec);
    }
}

/// Removes the last segment first. So a log that was only half removed still has its beginning.
int remove(const Segments& log, std::ostream& errors) {
    for (auto path = log.paths.rbegin(); path != log.paths.rend(); ++path) {
        if (::unlink(path->c_str()) == 0 || errno == ENOENT) continue;
        errors << terminal_safe(*path) << ": " << errno_code().message() << '\n';
        return 1;
    }
    return 0;
}

}  // namespace

std::optional<std::chrono::seconds> parse_age(const std::string& text) {
    if (text.ends_with('d')) {
        unsigned days = 0;
        const char* const end = text.data() + text.size() - 1;
        const auto [at, error] = std::from_chars(text.data(), end, days);
        if (error != std::errc{} || at != end || days > 1'000'000) return std::nullopt;
        return std::chrono::hours(24) * days;
    }
    const auto parsed = rules::parse_duration(text);
    if (!parsed) return std::nullopt;
    return std::chrono::duration_cast<std::chrono::seconds>(*parsed);
}

int prune(std::ostream& out, std::ostream& errors, const PruneOptions& options) {
    const std::time_t oldest = std::time(nullptr) - options.keep.count();
    std::uint64_t removed = 0, bytes = 0, kept = 0;
    int result = 0;
    for (const std::string& first : logs_in(options.state)) {
        const Segments log = segments_of(first);
        if (log.paths.empty() || log.in_use || log.written > oldest) {
            ++kept;
            continue;
        }
        if (const int failed = remove(log, errors); failed != 0) {
            result = failed;
            continue;
        }
        ++removed;
        bytes += log.bytes;
    }
    out << "removed " << removed << (removed == 1 ? " log" : " logs") << " (" << bytes << " bytes), kept "
        << kept << '\n';
    return result;
}

}  // namespace callgate::audit
