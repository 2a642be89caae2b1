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

struct Record {
    const char* name;
    const char* new_name;  // only who holds the lock writes it
    const Record* before;  // stands for it while it does not exist; may be null
    /// More roots of one directory become that directory. What is closed in it is then lost.
    std::size_t max_siblings;
};
constexpr Record links{"link-roots", "link-roots.new", nullptr, 64};
constexpr Record pointers{"pointer-roots", "pointer-roots.new", &links, 4096};
constexpr off_t max_size = off_t{16} << 20U;

/// The whole file; "" where there is none, nothing after an error. `read` is then the file's name.
std::optional<std::string> read_record(int directory, const Record& record, const char*& read) {
    read = record.name;
    const UniqueFd file(::openat(directory, record.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ENOENT && record.before != nullptr)
        return read_record(directory, *record.before, read);
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

bool write_record(int directory, const Record& record, const rules::LinkRoots& roots) {
    std::string text;
    for (const std::string& root : roots.roots()) text += root + '\n';
    for (const std::string& directory : roots.closed()) text += '-' + directory + '\n';
    // A killed start may have left the file.
    if (::unlinkat(directory, record.new_name, 0) != 0 && errno != ENOENT) return false;
    const UniqueFd file(
        ::openat(directory, record.new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    return file && write_all(file.get(), text) &&
           ::renameat(directory, record.new_name, directory, record.name) == 0;
}

Expected<rules::LinkRoots> add_to(const Record& record, const std::string& state,
                                  const rules::LinkRoots& roots) {
    const char* file = record.name;
    const auto failed = [&](const char* what) {
        return Problem{std::string(what) + ' ' + state + '/' + file + ": " + std::strerror(errno)};
    };
    const UniqueFd directory(::open(state.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return failed("cannot open the directory of");
    std::optional<std::string> text = read_record(directory.get(), record, file);
    if (!text) return failed("cannot read");
    rules::LinkRoots all = parse(*text);
    if (all.covers(roots)) return all;
    while (::flock(directory.get(), LOCK_EX) != 0)
        if (errno != EINTR) return failed("cannot lock the directory of");
    text = read_record(directory.get(), record, file);  // another start may have written it meanwhile
    if (!text) return failed("cannot read");
    all = parse(*text);
    all.add_all(in_lines(roots));
    all.join(record.max_siblings);
    file = record.name;
    if (!write_record(directory.get(), record, all)) return failed("cannot write");
    return all;
}

Expected<rules::LinkRoots> read_only(const Record& record, const std::string& state) {
    if (::access(state.c_str(), F_OK) != 0 && errno == ENOENT) return rules::LinkRoots();
    return add_to(record, state, {});
}

}  // namespace

Expected<rules::LinkRoots> recorded_link_roots(const std::string& state) { return read_only(links, state); }

Expected<rules::LinkRoots> record_link_roots(const std::string& state, const rules::LinkRoots& roots) {
    return add_to(links, state, roots);
}

Expected<rules::LinkRoots> recorded_pointer_roots(const std::string& state) {
    return read_only(pointers, state);
}

Expected<rules::LinkRoots> record_pointer_roots(const std::string& state, const rules::LinkRoots& roots) {
    return add_to(pointers, state, roots);
}

}  // namespace callgate
