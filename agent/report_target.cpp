#include "agent/report_target.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/write_all.hpp"

namespace callgate::agent {

namespace {

UniqueFd open_in_place(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
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

}  // namespace

ReportTarget open_report(const std::string& path) {
    ReportTarget place;
    struct stat status {};
    place.existed = ::stat(path.c_str(), &status) == 0;
    struct stat itself {};
    const bool dangling = !place.existed && ::lstat(path.c_str(), &itself) == 0;
    if (!dangling && (place.existed ? replaceable(status) : errno == ENOENT)) {
        std::error_code error;
        const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
        if (!error && real.has_filename()) {
            place.descriptor.reset(::open(real.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
            if (place.descriptor && stays_writable(place.descriptor.get())) {
                place.name = real.filename();
                if (place.existed) place.mode = status.st_mode & 07777;
                return place;
            }
        }
    }
    place.descriptor = open_in_place(path);
    return place;
}

bool write_report(const ReportTarget& place, std::string_view text) {
    if (!place.replaces()) return write_all(place.descriptor.get(), text);
    const int directory = place.descriptor.get();
    const std::string made = ".callgate-report-" + std::to_string(::getpid());
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
