#include "supervisor/audit/read/lines.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/audit/write/log_file.hpp"

namespace callgate::audit {

Result<UniqueFd> open_for_reading(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd) return errno_code();
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return errno_code();
    if (!S_ISREG(status.st_mode)) return errno_code(EINVAL);
    return fd;
}

Result<Lines> Lines::open(const std::string& path) {
    Result<UniqueFd> fd = open_for_reading(path);
    if (!fd) return fd.error();
    Lines lines;
    lines.first_ = lines.path_ = path;
    lines.fd_ = std::move(*fd);
    return lines;
}

/// Returns false at the end of this file, or if it cannot be read: such a file cannot be told from an empty
/// one.
bool Lines::read_more() {
    bytes_.erase(0, begin_);
    begin_ = 0;
    constexpr std::size_t block = 256 << 10;
    const std::size_t before = bytes_.size();
    bytes_.resize(before + block);
    const ssize_t got = ::read(fd_.get(), bytes_.data() + before, block);
    bytes_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return got > 0;
}

bool Lines::next_segment() {
    const std::string next = segment_path(first_, segment_ + 1);
    if (next.empty()) return false;
    Result<UniqueFd> opened = open_for_reading(next);
    if (!opened) return false;
    if (read_more()) return true;  // a file that has grown is read on first
    if (torn()) ++torn_segments_;
    fd_ = std::move(*opened);
    path_ = next;
    ++segment_;
    number_ = 0;
    bytes_.clear();
    begin_ = 0;
    skipping_ = false;
    return true;
}

Lines::Step Lines::next() {
    std::size_t searched = begin_;
    for (;;) {
        const std::size_t newline = bytes_.find('\n', searched);
        if (newline != std::string::npos) {
            text_ = std::string_view(bytes_).substr(begin_, newline - begin_);
            begin_ = newline + 1;
            ++number_;
            if (!skipping_ && text_.size() < max_line) return Step::line;
            skipping_ = false;
            text_ = {};
            return Step::too_long;
        }
        if (bytes_.size() - begin_ > max_line) {
            skipping_ = true;
            begin_ = bytes_.size();
        }
        searched = bytes_.size() - begin_;
        if (!read_more() && !next_segment()) return Step::end;
        searched = std::min(searched, bytes_.size());
    }
}

}  // namespace callgate::audit
