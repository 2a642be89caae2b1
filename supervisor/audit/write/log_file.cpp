#include "supervisor/audit/write/log_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/make_directories.hpp"
#include "supervisor/audit/write/format.hpp"

namespace callgate::audit {

namespace {

constexpr int append_flags = O_APPEND | O_NOFOLLOW | O_CLOEXEC;

/// The offset behind the last newline, or 0 if there is none. `size` is the file's.
Result<off_t> end_of_last_line(int fd, off_t size) {
    std::array<char, 65536> block{};
    while (size > 0) {
        const off_t start = std::max<off_t>(0, size - static_cast<off_t>(block.size()));
        const ssize_t got = ::pread(fd, block.data(), static_cast<std::size_t>(size - start), start);
        if (got < 0) return errno_code();
        const auto newline = std::string_view(block.data(), static_cast<std::size_t>(got)).rfind('\n');
        if (newline != std::string_view::npos) return start + static_cast<off_t>(newline) + 1;
        size = start;
    }
    return off_t{0};
}

Result<void> copy_bytes(int from, off_t start, off_t end, int to) {
    std::array<char, 65536> block{};
    while (start < end) {
        const auto wanted = std::min<std::size_t>(block.size(), static_cast<std::size_t>(end - start));
        const ssize_t got = ::pread(from, block.data(), wanted, start);
        if (got <= 0) return got < 0 ? errno_code() : errno_code(EIO);
        const ssize_t put = ::write(to, block.data(), static_cast<std::size_t>(got));
        if (put <= 0) return put < 0 ? errno_code() : errno_code(ENOSPC);
        start += put;
    }
    return {};
}

/// Moves the bytes behind the last newline to `FILE.torn`. They are on disk there before they are cut off
/// here.
Result<void> set_torn_line_aside(ContinuedLog& log, const std::string& path, off_t size) {
    const Result<off_t> whole = end_of_last_line(log.fd.get(), size);
    if (!whole) return whole.error();
    if (*whole == size) return {};
    const std::string aside = path + ".torn";
    const UniqueFd torn(::open(aside.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | append_flags, 0600));
    if (!torn) return errno_code();
    struct stat status {};
    if (::fstat(torn.get(), &status) != 0) return errno_code();
    if (!S_ISREG(status.st_mode)) return errno_code(EINVAL);
    if (const Result<void> copied = copy_bytes(log.fd.get(), *whole, size, torn.get()); !copied)
        return copied;
    if (::fsync(torn.get()) != 0 || ::ftruncate(log.fd.get(), *whole) != 0) return errno_code();
    log.torn_bytes = static_cast<std::uint64_t>(size - *whole);
    log.set_aside = aside;
    return {};
}

/// The hash of the last line. If the line has none (an empty log or an older version), a new chain begins.
ChainHash last_head(int fd) {
    const off_t size = ::lseek(fd, 0, SEEK_END);
    std::string tail(static_cast<std::size_t>(std::clamp<off_t>(size, 0, off_t{max_line})), '\0');
    const ssize_t got = ::pread(fd, tail.data(), tail.size(), size - static_cast<off_t>(tail.size()));
    tail.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (!tail.ends_with('\n')) return ChainHash::none();
    tail.pop_back();
    const auto sealed = take_apart(std::string_view(tail).substr(tail.rfind('\n') + 1));
    return sealed ? sealed->hash : ChainHash::none();
}

}  // namespace

Result<UniqueFd> open_private_directory(const std::string& path) {
    if (path.empty()) return errno_code(ENOENT);
    std::string bare = path;
    // A trailing slash would follow a link in spite of O_NOFOLLOW.
    while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd directory(::open(bare.c_str(), flags));
    if (!directory && errno == ENOENT) {
        if (const Result<void> made = make_directories(path); !made) return made.error();
        directory.reset(::open(bare.c_str(), flags));
    }
    if (!directory) return errno_code();
    struct stat status {};
    if (::fstat(directory.get(), &status) != 0) return errno_code();
    if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) return errno_code(EPERM);
    if ((status.st_mode & 077) != 0 && ::fchmod(directory.get(), 0700) != 0) return errno_code();
    return directory;
}

Result<UniqueFd> create_log(int directory, const std::string& name) {
    UniqueFd fd(::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | append_flags, 0600));
    if (!fd) return errno_code();
    // The lock is held while the run lasts, so that no second run continues this file. If locks are not
    // supported, the run goes without.
    static_cast<void>(::flock(fd.get(), LOCK_EX | LOCK_NB));
    return fd;
}

Result<ContinuedLog> continue_log(const std::string& path) {
    ContinuedLog log;
    // O_NONBLOCK: a FIFO or device must not block us before its type is known.
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return errno_code();
    if (S_ISLNK(status.st_mode)) return errno_code(ELOOP);
    if (!S_ISREG(status.st_mode)) return errno_code(EINVAL);
    log.fd.reset(::open(path.c_str(), O_RDWR | O_NONBLOCK | append_flags));
    if (!log.fd) return errno_code();
    if (::fstat(log.fd.get(), &status) != 0) return errno_code();
    if (!S_ISREG(status.st_mode)) return errno_code(EINVAL);
    if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) return errno_code(EPERM);
    if (::flock(log.fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return errno_code();
    char first = '{';
    if (::pread(log.fd.get(), &first, 1, 0) < 0) return errno_code();
    // A file of another kind, named by mistake, must not lose its last line.
    if (first != '{') return errno_code(EINVAL);
    if (const Result<void> whole = set_torn_line_aside(log, path, status.st_size); !whole)
        return whole.error();
    log.head = last_head(log.fd.get());
    return log;
}

}  // namespace callgate::audit
