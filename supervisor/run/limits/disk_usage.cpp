#include "supervisor/run/limits/disk_usage.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "base/directory.hpp"
#include "base/test_switch.hpp"

namespace callgate::limits {

namespace {

constexpr std::uint64_t block_size = 512;  // st_blocks, stat(2)
constexpr std::size_t max_depth = 256;
constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

class Count {
public:
    void root(const std::string& path) {
        const int fd = ::open(path.c_str(), directory_flags);
        struct stat status {};
        if (fd < 0) {
            usage_.whole &= ::stat(path.c_str(), &status) != 0 || !hides(status);
            return;
        }
        if (::fstat(fd, &status) == 0) device_ = status.st_dev;
        enter(fd);
        walk();
    }
    [[nodiscard]] DiskUsage usage() const { return usage_; }

private:
    /// Whether there may be bytes of the run in a directory that cannot be opened. A run writes in no other
    /// user's directory that callgate cannot list, but for one that is open to writers alone.
    static bool hides(const struct stat& status) { return status.st_uid == ::geteuid(); }

    /// Takes the descriptor of a directory.
    void enter(int fd) {
        struct stat status {};
        const bool fresh = ::fstat(fd, &status) == 0 && status.st_dev == device_ && add(status, true);
        DIR* const directory = fresh && open_.size() < max_depth ? ::fdopendir(fd) : nullptr;
        if (directory != nullptr)
            open_.emplace_back(directory);
        else
            ::close(fd);
        usage_.whole &= !fresh || directory != nullptr;
    }
    /// Counts an inode. False if it was counted before. A file with one name need not be remembered.
    bool add(const struct stat& status, bool remember) {
        if ((remember || status.st_nlink > 1) && !counted_.emplace(status.st_dev, status.st_ino).second)
            return false;
        const std::uint64_t bytes = static_cast<std::uint64_t>(status.st_blocks) * block_size;
        usage_.bytes += bytes;
        ++usage_.names;
        if (!S_ISREG(status.st_mode)) usage_.others += bytes;
        return true;
    }
    void walk() {
        while (!open_.empty()) {
            DIR* const directory = open_.back().get();
            const dirent* entry = ::readdir(directory);
            if (entry == nullptr) {
                open_.pop_back();
                continue;
            }
            const std::string_view name = entry->d_name;
            if (name == "." || name == "..") continue;
            struct stat status {};
            if (::fstatat(::dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
                usage_.whole &= errno == ENOENT;
                continue;
            }
            if (!S_ISDIR(status.st_mode)) {
                add(status, false);
                continue;
            }
            const int fd = ::openat(::dirfd(directory), entry->d_name, directory_flags);
            if (fd >= 0)
                enter(fd);
            else if (errno != ENOENT)
                usage_.whole &= !hides(status);
        }
    }

    dev_t device_ = 0;
    std::vector<Directory> open_;
    std::set<std::pair<dev_t, ino_t>> counted_;
    DiskUsage usage_;
};

}  // namespace

DiskUsage disk_usage(const std::vector<std::string>& roots) {
    Count count;
    for (const std::string& path : roots) count.root(path);
    DiskUsage usage = count.usage();
    usage.whole |= !check_enabled("disk-whole");
    return usage;
}

std::uint64_t used_around(const std::vector<std::string>& roots) {
    std::set<unsigned long> counted;
    std::uint64_t bytes = 0;
    for (const std::string& path : roots) {
        struct statvfs status {};
        if (::statvfs(path.c_str(), &status) == 0 && counted.insert(status.f_fsid).second)
            bytes += std::uint64_t{status.f_blocks - status.f_bfree} * status.f_frsize;
    }
    return bytes;
}

std::vector<dev_t> devices_of(const std::vector<std::string>& roots) {
    std::vector<dev_t> devices;
    for (const std::string& path : roots) {
        struct stat status {};
        if (::stat(path.c_str(), &status) == 0) devices.push_back(status.st_dev);
    }
    return devices;
}

}  // namespace callgate::limits
