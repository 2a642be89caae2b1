#include "supervisor/kernel/caller_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>

#include "base/test_switch.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/kept_sockets.hpp"

namespace callgate::kernel {

namespace {

/// Files beneath /proc/TID that determine the meaning of a path.
constexpr std::array places = {"ns/user", "ns/mnt", "root"};

std::array<struct stat, places.size()> own_places() {
    std::array<struct stat, places.size()> found{};
    for (std::size_t index = 0; index < places.size(); ++index) {
        if (::stat((std::string(proc_root) + "self/" + places[index]).c_str(), &found[index]) != 0) {
            found[index].st_ino = 0;  // equal to no thread's: closed on failure
        }
    }
    return found;
}

bool is_elsewhere(pid_t thread) {
    const ReadingCaller reading;
    static const auto own = own_places();
    for (std::size_t index = 0; index < places.size(); ++index) {
        struct stat place {};
        if (::stat(ProcPath(thread, places[index]).text, &place) != 0) return true;
        if (place.st_ino != own[index].st_ino || place.st_dev != own[index].st_dev) return true;
    }
    return false;
}

}  // namespace

/// Counts one more handle, within the bound.
bool CallerCache::may_keep() {
    if (all_handles.fetch_add(1, std::memory_order_relaxed) < max_handles) return true;
    all_handles.fetch_sub(1, std::memory_order_relaxed);
    return false;
}

void CallerCache::drop(UniqueFd& handle) {
    if (!handle) return;
    handle.reset();
    all_handles.fetch_sub(1, std::memory_order_relaxed);
}

/// If there is no handle, the caller is looked up anew each time.
void CallerCache::keep(Entry& entry, pid_t thread) {
    drop(entry.directory);
    entry.thread = thread;
    if (!may_keep()) return;
    entry.directory.reset(::open(ProcPath(thread, "").text, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!entry.directory) all_handles.fetch_sub(1, std::memory_order_relaxed);
}

void CallerCache::clear() {
    for (Entry& entry : entries_) drop(entry.directory);
    for (Taken& taken : taken_) drop(taken.handle);
}

Result<UniqueFd> CallerCache::descriptor_copy(pid_t thread, int number) {
    if (KeptSockets* const kept = KeptSockets::in_use()) return kept->of(thread, number);
    Taken& taken = taken_[static_cast<std::size_t>(thread) % taken_.size()];
    if (taken.thread == thread && taken.handle) {
        auto copy = kernel::descriptor_copy(taken.handle, number);
        if (copy || copy.error().value() != ESRCH) return copy;
    }
    auto handle = thread_handle(thread);
    if (!handle) return handle.error();
    auto copy = kernel::descriptor_copy(handle->fd, number);
    drop(taken.handle);
    if (!handle->lasting || !may_keep()) return copy;
    taken = {thread, std::move(handle->fd)};
    return copy;
}

Identity CallerCache::look_up(pid_t thread, std::string& executable) {
    Entry& entry = entries_[static_cast<std::size_t>(thread) % size];
    char buffer[PATH_MAX];
    if (entry.thread == thread && entry.directory) {
        const ReadingCaller reading;
        const ssize_t length = ::readlinkat(entry.directory.get(), "exe", buffer, sizeof buffer);
        if (length > 0) {
            executable.assign(buffer, static_cast<std::size_t>(length));
            if (roots_change && check_enabled("caller-chrooted")) entry.elsewhere = is_elsewhere(thread);
            return entry.identity;
        }
    }
    keep(entry, thread);
    const auto found = identity(thread);
    entry.identity = found ? *found : Identity{};
    entry.elsewhere = is_elsewhere(thread);
    kernel::executable(thread, executable);
    return entry.identity;
}

bool CallerCache::elsewhere(pid_t thread) const {
    const Entry& entry = entries_[static_cast<std::size_t>(thread) % size];
    return entry.thread != thread || entry.elsewhere;
}

}  // namespace callgate::kernel
