#include "supervisor/calls/files/held_open.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <climits>
#include <cstdlib>
#include <string_view>

#include "base/directory.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::OperationSet;

OperationSet access_of(int flags) {
    if ((flags & O_PATH) != 0) return {};
    const int mode = flags & O_ACCMODE;
    OperationSet access;
    if (mode == O_RDONLY || mode == O_RDWR) access |= Operation::read;
    if (mode == O_WRONLY || mode == O_RDWR) access |= Operation::modify;
    return access;
}

/// The copy is of one open file, whatever a sibling does to the number meanwhile.
bool opens(pid_t thread, int number, const struct stat& file, OperationSet access) {
    const auto copy = kernel::descriptor_copy(thread, number);
    struct stat found {};
    if (!copy || ::fstat(copy->get(), &found) != 0) return false;
    const int flags = ::fcntl(copy->get(), F_GETFL);
    return found.st_ino == file.st_ino && found.st_dev == file.st_dev && flags >= 0 &&
           access_of(flags).contains_all(access);
}

}  // namespace

bool holds_open(FileCall& context, const Object& object, OperationSet access) {
    if (access.empty() || !object.unlinked || object.in_procfs || object.status.st_nlink != 0 ||
        !S_ISREG(object.status.st_mode))
        return false;
    const kernel::ReadingCaller reading;
    const Directory entries(::opendir(kernel::ProcPath(context.thread(), "fd").text));
    while (const dirent* const entry = entries ? ::readdir(entries.get()) : nullptr) {
        char name[PATH_MAX];  // nothing is asked of the file system of another file
        const ssize_t length = ::readlinkat(::dirfd(entries.get()), entry->d_name, name, sizeof name);
        if (length < 0 || object.path != std::string_view(name, static_cast<std::size_t>(length))) continue;
        if (opens(context.thread(), std::atoi(entry->d_name), object.status, access)) return true;
    }
    return false;
}

}  // namespace callgate::calls
