#include "supervisor/host/change_watch.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

namespace callgate {

namespace {

constexpr std::uint32_t changes_of_names =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;

/// XFS_SUPER_MAGIC of the kernel's fs/xfs, which no header for programs has.
constexpr decltype(statfs::f_type) xfs_magic = 0x58465342;

/// File systems of this machine alone, whose every change goes through its VFS.
bool tells_of_changes(const std::string& directory) {
    constexpr std::array local{static_cast<decltype(statfs::f_type)>(EXT4_SUPER_MAGIC),
                               xfs_magic,
                               static_cast<decltype(statfs::f_type)>(BTRFS_SUPER_MAGIC),
                               static_cast<decltype(statfs::f_type)>(F2FS_SUPER_MAGIC),
                               static_cast<decltype(statfs::f_type)>(TMPFS_MAGIC),
                               static_cast<decltype(statfs::f_type)>(OVERLAYFS_SUPER_MAGIC)};
    struct statfs system {};
    if (::statfs(directory.c_str(), &system) != 0 || std::ranges::count(local, system.f_type) == 0)
        return false;
    // Names in an encrypted directory appear and go with its key (ext4(5), fscrypt), and nobody is told.
    struct statx status {};
    return ::statx(AT_FDCWD, directory.c_str(), AT_SYMLINK_NOFOLLOW, 0, &status) == 0 &&
           (status.stx_attributes & STATX_ATTR_ENCRYPTED) == 0;
}

std::string parent_of(const std::string& path) {
    return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
}

bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

/// The same for names that a directory which ignores case takes for one; nothing where only its own tables of
/// Unicode could tell.
std::optional<std::string> folded(std::string_view name) {
    if (!std::ranges::all_of(name, is_ascii)) return std::nullopt;
    std::string all(name);
    for (char& one : all)
        if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
    return all;
}

std::atomic<bool>* make_shared_flag() {
    void* const memory =
        ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : ::new (memory) std::atomic<bool>(true);
}

}  // namespace

ChangeWatch::ChangeWatch()
    : events_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
      mounts_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)),
      quiet_(make_shared_flag()) {}

ChangeWatch::~ChangeWatch() {
    if (quiet_ != nullptr) ::munmap(quiet_, sizeof *quiet_);
}

int ChangeWatch::add(const std::string& directory) {
    if (!events_ || !mounts_ || quiet_ == nullptr) return none;
    const int watch =
        ::inotify_add_watch(events_.get(), directory.c_str(), changes_of_names | IN_ONLYDIR | IN_DONT_FOLLOW);
    if (watch < 0 || !tells_of_changes(directory)) return none;
    watched_.try_emplace(watch);
    return watch;
}

/// Its own name is covered first, as are those of all above it.
int ChangeWatch::watch_of(const std::string& directory) {
    if (const auto known = watches_.find(directory); known != watches_.end()) return known->second;
    const int watch = directory == "/" || covers_name(directory) ? add(directory) : none;
    watches_.emplace(directory, watch);
    return watch;
}

bool ChangeWatch::covers_name(const std::string& path) {
    if (path == "/") return true;
    if (!path.starts_with('/') || path.ends_with('/')) return false;
    const int watch = watch_of(parent_of(path));
    if (watch == none) return false;
    Watched& holder = watched_[watch];
    if (auto name = folded(std::string_view(path).substr(path.rfind('/') + 1)))
        holder.names.insert(std::move(*name));
    else
        holder.all = true;
    return true;
}

bool ChangeWatch::covers_names_in(const std::string& directory) {
    const int watch = watch_of(directory);
    if (watch == none) return false;
    watched_[watch].all = true;
    return true;
}

bool ChangeWatch::quiet() {
    if (!events_ || !mounts_ || quiet_ == nullptr || !quiet_->exchange(false)) return false;
    if (mounts_changed() || names_changed()) return false;
    quiet_->store(true);
    return true;
}

/// proc_pid_mountinfo(5): priority data is a change of this process's mounts.
bool ChangeWatch::mounts_changed() const {
    pollfd changed{mounts_.get(), POLLPRI, 0};
    return ::poll(&changed, 1, 0) != 0;
}

bool ChangeWatch::concerns(int watch, std::uint32_t what, std::string_view name) const {
    if ((what & IN_Q_OVERFLOW) != 0) return true;
    const auto found = watched_.find(watch);
    if (found == watched_.end()) return false;
    if (name.empty() || found->second.all) return true;  // the directory itself; any name
    const auto asked = folded(name);
    return !asked || found->second.names.contains(*asked);
}

/// One reading: more events than that take longer than looking again.
bool ChangeWatch::names_changed() const {
    alignas(inotify_event) std::array<char, 16384> buffer;
    const ssize_t got = ::read(events_.get(), buffer.data(), buffer.size());
    if (got < 0) return errno != EAGAIN;
    if (static_cast<std::size_t>(got) > buffer.size() - sizeof(inotify_event) - NAME_MAX - 1) return true;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
        inotify_event event{};
        std::memcpy(&event, buffer.data() + at, sizeof event);
        const char* const name = buffer.data() + at + sizeof event;
        at += sizeof event + event.len;
        if (concerns(event.wd, event.mask, {name, ::strnlen(name, event.len)})) return true;
    }
    return false;
}

}  // namespace callgate
