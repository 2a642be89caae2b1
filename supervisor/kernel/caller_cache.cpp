#include "supervisor/kernel/caller_cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <climits>

namespace callgate::kernel {

Identity CallerCache::look_up(pid_t thread, std::string& executable) {
    Entry& entry = entries_[static_cast<std::size_t>(thread) % size];
    char buffer[PATH_MAX];
    if (entry.thread == thread && entry.directory) {
        const ssize_t length = ::readlinkat(entry.directory.get(), "exe", buffer, sizeof buffer);
        if (length > 0) {
            executable.assign(buffer, static_cast<std::size_t>(length));
            return entry.identity;
        }
    }
    entry.thread = thread;
    entry.directory.reset(::open(ProcPath(thread, "").text, O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto found = identity(thread);
    entry.identity = found ? *found : Identity{};
    kernel::executable(thread, executable);
    return entry.identity;
}

}  // namespace callgate::kernel
