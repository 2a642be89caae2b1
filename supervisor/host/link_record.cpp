#include "supervisor/host/link_record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace callgate {

namespace {

constexpr const char* name = "link-roots";
constexpr const char* new_name = "link-roots.new";  // only who holds the lock writes it
constexpr std::size_t max_siblings = 64;
constexpr off_t max_size = off_t{16} << 20U;

/// The whole file; "" where there is none, nothing after an error.
std::optional<std::string> read_record(int directory) {
    const UniqueFd file(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) return errno == ENOENT ? std::optional<std::string>("") : std::nullopt;
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return std::nullopt;
    if (!S_ISREG(status.st_mode) || status.st_size > max_size) {
        errno = EINVAL;
        return std::nullopt;
    }
    // The file is never changed in place, so it has this size.
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    for (std::size_t filled = 0; filled < text.size();) {
        const ssize_t count =
            ::pread(file.get(), text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = EIO;
        if (count <= 0) return std::nullopt;
        filled += static_cast<std::size_t>(count);
    }
    return text;
}

rules::LinkRoots parse(std::string_view text) {
    rules::LinkRoots roots;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        if (line.starts_with('/')) roots.add(line);
        if (line.starts_with("-/")) roots.close(line.substr(1));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
    return roots;
}

/// A name that holds the end of a line has no line. Its directory stands for it, and nothing for a closed
/// one.
rules::LinkRoots in_lines(const rules::LinkRoots& roots) {
    rules::LinkRoots lines;
    for (const std::string& root : roots.roots()) {
        const std::size_t end = root.find('\n');
        lines.add(end == std::string::npos ? root : root.substr(0, root.rfind('/', end) + 1));
    }
    for (const std::string& directory : roots.closed())
        if (directory.find('\n') == std::string::npos) lines.close(directory);
    return lines;
}

bool write_record(int directory, const rules::LinkRoots& roots) {
    std::string text;
    for (const std::string& root : roots.roots()) text += root + '\n';
    for (const std::string& directory : roots.closed()) text += '-' + directory + '\n';
    // A killed start may have left the file.
    if (::unlinkat(directory, new_name, 0) != 0 && errno != ENOENT) return false;
    const UniqueFd file(
        ::openat(directory, new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    return file && write_all(file.get(), text) && ::renameat(directory, new_name, directory, name) == 0;
}

}  // namespace

Expected<rules::LinkRoots> recorded_link_roots(const std::string& state) {
    if (::access(state.c_str(), F_OK) != 0 && errno == ENOENT) return rules::LinkRoots();
    return record_link_roots(state, {});
}

Expected<rules::LinkRoots> record_link_roots(const std::string& state, const rules::LinkRoots& roots) {
    const auto failed = [&state](const char* what) {
        return Problem{std::string(what) + ' ' + state + '/' + name + ": " + std::strerror(errno)};
    };
    const UniqueFd directory(::open(state.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return failed("cannot open the directory of");
    std::optional<std::string> text = read_record(directory.get());
    if (!text) return failed("cannot read");
    rules::LinkRoots all = parse(*text);
    if (all.covers(roots)) return all;
    while (::flock(directory.get(), LOCK_EX) != 0)
        if (errno != EINTR) return failed("cannot lock the directory of");
    text = read_record(directory.get());  // another start may have written it meanwhile
    if (!text) return failed("cannot read");
    all = parse(*text);
    all.add_all(in_lines(roots));
    all.join(max_siblings);
    if (!write_record(directory.get(), all)) return failed("cannot write");
    return all;
}

}  // namespace callgate
