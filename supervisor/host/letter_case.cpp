#include "supervisor/host/letter_case.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "base/directory.hpp"
#include "base/unique_fd.hpp"

namespace callgate {

namespace {

char other_case(char letter) {
    const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    return is_letter ? static_cast<char>(letter ^ ('a' ^ 'A')) : letter;
}

/// Whether the entry is found by its name in the other case, too. Nothing if that cannot be told.
std::optional<bool> found_in_other_case(int directory, const std::string& name) {
    std::string other = name;
    std::ranges::transform(other, other.begin(), other_case);
    struct stat status {
    }, found{};
    if (other == name || ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return std::nullopt;
    if (::fstatat(directory, other.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return false;
    if (found.st_ino != status.st_ino || found.st_dev != status.st_dev) return false;
    return S_ISDIR(status.st_mode) || status.st_nlink == 1 ? std::optional(true) : std::nullopt;
}

}  // namespace

bool ignores_letter_case(const std::string& directory) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const UniqueFd fd(::open(directory.c_str(), flags));
    if (!fd) return false;
    unsigned attributes = 0;
    if (::ioctl(fd.get(), FS_IOC_GETFLAGS, &attributes) == 0 && (attributes & FS_CASEFOLD_FL) != 0)
        return true;
    const Directory stream(::opendir(directory.c_str()));
    while (const dirent* const entry = stream ? ::readdir(stream.get()) : nullptr)
        if (const std::optional<bool> found = found_in_other_case(::dirfd(stream.get()), entry->d_name))
            return *found;
    const std::size_t slash = directory.rfind('/');
    if (slash == std::string::npos || slash + 1 == directory.size()) return false;
    const UniqueFd parent(::open(slash == 0 ? "/" : directory.substr(0, slash).c_str(), flags));
    return parent && found_in_other_case(parent.get(), directory.substr(slash + 1)).value_or(false);
}

}  // namespace callgate
