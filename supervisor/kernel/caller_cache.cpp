#include "supervisor/kernel/caller_cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <climits>

namespace callgate::kernel {

void CallerCache::drop(Entry& entry) {
    if (!entry.directory) return;
    entry.directory.reset();
    handles_.fetch_sub(1, std::memory_order_relaxed);
}

/// Without a handle the caller is looked up anew each time.
void CallerCache::keep(Entry& entry, pid_t thread) {
    drop(entry);
    entry.thread = thread;
    if (handles_.fetch_add(1, std::memory_order_relaxed) < most_handles)
        entry.directory.reset(::open(ProcPath(thread, "").text, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!entry.directory) handles_.fetch_sub(1, std::memory_order_relaxed);
}

void CallerCache::clear() {
    for (Entry& entry : entries_) drop(entry);
}

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
    keep(entry, thread);
    const auto found = identity(thread);
    entry.identity = found ? *found : Identity{};
    kernel::executable(thread, executable);
    return entry.identity;
}

}  // namespace callgate::kernel
