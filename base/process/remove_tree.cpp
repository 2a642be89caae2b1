#include "base/process/remove_tree.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "base/directory.hpp"
#include "base/unique_fd.hpp"

namespace callgate {
namespace {

// The target may have taken all rights from its own directory. They are restored through the pinned object,
// never by name.
Directory open_directory(int parent, const char* name) {
    const UniqueFd pinned(::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!pinned) return nullptr;
    std::array<char, 40> magic{};
    std::snprintf(magic.data(), magic.size(), "/proc/self/fd/%d", pinned.get());
    ::chmod(magic.data(), S_IRWXU);
    const int readable = ::openat(pinned.get(), ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return Directory(readable < 0 ? nullptr : ::fdopendir(readable));
}

// Flattens deep trees: a directory inside a directory is moved up to the top. So neither the stack nor the
// number of descriptors grows with the depth.
class Remover {
public:
    explicit Remover(Directory top) : top_(std::move(top)), top_fd_(::dirfd(top_.get())) {}

    void run() {
        do {
            progress_ = false;
            ::rewinddir(top_.get());
            for_each_name(top_.get(), [this](const char* name) { remove_entry(name); });
        } while (progress_);
    }
    [[nodiscard]] int error() const { return error_; }

private:
    template <typename Visit>
    static void for_each_name(DIR* directory, Visit visit) {
        while (const dirent* entry = ::readdir(directory)) {
            const std::string_view name = entry->d_name;
            if (name != "." && name != "..") visit(entry->d_name);
        }
    }
    void note(bool good) {
        if (good)
            progress_ = true;
        else if (error_ == 0)
            error_ = errno;
    }
    void remove_entry(const char* name) {
        if (::unlinkat(top_fd_, name, 0) == 0) return note(true);
        if (errno != EISDIR && errno != EPERM) return note(false);
        const Directory inner = open_directory(top_fd_, name);
        if (!inner) return note(false);
        const int inner_fd = ::dirfd(inner.get());
        for_each_name(inner.get(), [&](const char* entry) {
            if (::unlinkat(inner_fd, entry, 0) == 0) return note(true);
            if (errno != EISDIR && errno != EPERM) return note(false);
            move_up(inner_fd, entry);
        });
        // Entries that appeared behind the reading position are left for the next round.
        if (::unlinkat(top_fd_, name, AT_REMOVEDIR) == 0)
            progress_ = true;
        else if (errno != ENOTEMPTY)
            note(false);
    }
    void move_up(int from, const char* name) {
        if (::unlinkat(from, name, AT_REMOVEDIR) == 0) return note(true);
        // A directory that is not writable cannot change its parent.
        static_cast<void>(open_directory(from, name));
        std::array<char, 48> unused{};
        do {
            std::snprintf(unused.data(), unused.size(), ".callgate-removed-%llu",
                          static_cast<unsigned long long>(counter_++));
        } while (::faccessat(top_fd_, unused.data(), F_OK, AT_SYMLINK_NOFOLLOW) == 0);
        note(::renameat(from, name, top_fd_, unused.data()) == 0);
    }

    Directory top_;
    int top_fd_;
    std::uint64_t counter_ = 0;
    bool progress_ = false;
    int error_ = 0;
};

}  // namespace

Result<void> remove_tree(const std::string& directory) {
    const auto failure = [](int error) { return errno_code(error); };
    if (::rmdir(directory.c_str()) == 0) return {};  // usually it is empty
    Directory top = open_directory(AT_FDCWD, directory.c_str());
    if (!top) {
        if (errno == ENOENT) return {};
        const int why = errno;
        struct stat status {};
        if (::lstat(directory.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) ::unlink(directory.c_str());
        return failure(why);
    }
    Remover remover(std::move(top));
    remover.run();
    if (::rmdir(directory.c_str()) == 0) return {};
    return failure(remover.error() != 0 ? remover.error() : errno);
}

}  // namespace callgate
