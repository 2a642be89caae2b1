#include "agent/report_target.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/write_all.hpp"

namespace callgate::agent {

namespace {

UniqueFd open_in_place(const std::string& path) {
    constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
    UniqueFd file(::open(path.c_str(), flags, 0666));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) return {};
    if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) return file;
    file.reset();
    errno = EINVAL;
    return file;
}

/// Whether names can still be created in it after callgate has dropped its capabilities.
bool stays_writable(int directory) {
    struct stat status {};
    if (::fstat(directory, &status) != 0 || ::faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) != 0)
        return false;
    if ((status.st_mode & S_ISVTX) != 0 && (status.st_mode & S_IWOTH) != 0) return true;  // as /tmp
    return status.st_uid == ::geteuid() ? (status.st_mode & S_IWUSR) != 0 : ::geteuid() != 0;
}

/// Whether an existing file can be replaced.
bool replaceable(const struct stat& status) {
    return S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_uid == ::geteuid() &&
           (status.st_mode & S_IWUSR) != 0;
}

/// A name that no other process can foretell; "" with errno if the kernel has no random numbers.
std::string unforeseen_name() {
    std::array<unsigned char, 12> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return "";
    constexpr std::string_view digits = "0123456789abcdef";
    std::string name = ".callgate-report-";
    for (const unsigned char byte : bytes) (name += digits[byte >> 4U]) += digits[byte & 15U];
    return name;
}

}  // namespace

ReportTarget open_report(const std::string& path) {
    ReportTarget place;
    struct stat status {};
    const bool found = ::lstat(path.c_str(), &status) == 0;
    const bool link = found && S_ISLNK(status.st_mode);
    const bool foreign = link && status.st_uid != ::geteuid();
    const std::size_t slash = path.rfind('/');
    if (!foreign && slash != std::string::npos && slash + 1 < path.size() &&
        (found ? link || replaceable(status) : errno == ENOENT)) {
        const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
        place.descriptor.reset(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (place.descriptor && stays_writable(place.descriptor.get())) {
            place.name = path.substr(slash + 1);
            place.existed = found && !link;
            if (place.existed) place.mode = status.st_mode & 07777;
            return place;
        }
    }
    place.descriptor = open_in_place(path);
    return place;
}

bool write_report(const ReportTarget& place, std::string_view text) {
    if (!place.replaces()) return write_all(place.descriptor.get(), text);
    const int directory = place.descriptor.get();
    const std::string made = unforeseen_name();
    if (made.empty()) return false;
    UniqueFd file(::openat(directory, made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file) return false;
    const bool written = write_all(file.get(), text) &&
                         (!place.existed || ::fchmod(file.get(), place.mode) == 0) &&
                         ::renameat(directory, made.c_str(), directory, place.name.c_str()) == 0;
    if (written) return true;
    const int error = errno;
    ::unlinkat(directory, made.c_str(), 0);
    errno = error;
    return false;
}

}  // namespace callgate::agent
