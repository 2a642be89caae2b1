#include "agent/created_ipc.hpp"

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/directory.hpp"
#include "base/process/capabilities.hpp"
#include "base/process/remove_tree.hpp"
#include "base/unique_fd.hpp"

namespace callgate::agent {

namespace {

void remove_id(ObjectKind kind, int id) {
    switch (kind) {
        case ObjectKind::memory:
            ::syscall(SYS_shmctl, id, IPC_RMID, nullptr);
            return;
        case ObjectKind::semaphores:
            ::syscall(SYS_semctl, id, 0, IPC_RMID, 0);
            return;
        case ObjectKind::queue:
            ::syscall(SYS_msgctl, id, IPC_RMID, nullptr);
            return;
    }
}

bool lists(const CreatedIpc::Files& files, const SharedFile& file) {
    const auto* const end = files.values.begin() + std::min(files.count.load(), CreatedIpc::max_files);
    return std::any_of(files.values.begin(), end, [&file](const CreatedIpc::File& one) {
        return one.inode.load() == file.inode && one.born.load() == file.born;
    });
}

/// Looks at all that stands in the directory: the list has no names. What was made in a directory of the run
/// goes with it.
void remove_shared_files(const CreatedIpc::Files& files) {
    if (files.count.load() == 0) return;
    const Directory place(::opendir(shared_memory_place().c_str()));
    if (!place) return;
    while (const dirent* entry = ::readdir(place.get())) {
        if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
        const auto found = shared_file(::dirfd(place.get()), entry->d_name);
        if (!found || !lists(files, *found) || ::unlinkat(::dirfd(place.get()), entry->d_name, 0) == 0)
            continue;
        static_cast<void>(remove_tree(shared_memory_place() + '/' + entry->d_name));
    }
}

}  // namespace

boost::system::result<SharedObjects> SharedObjects::make() {
    void* const memory = ::mmap(nullptr, sizeof(CreatedIpc), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return boost::system::error_code(errno, boost::system::system_category());
    // The kernel's memory is zeroed, which is an empty list. Writing all of it would cost a megabyte.
    return SharedObjects(static_cast<CreatedIpc*>(memory));
}

SharedObjects::SharedObjects(SharedObjects&& other) noexcept
    : objects_(std::exchange(other.objects_, nullptr)) {}

SharedObjects::~SharedObjects() {
    if (objects_ != nullptr) ::munmap(objects_, sizeof(CreatedIpc));
}

bool is_message_queue(const char* name, std::uint64_t inode, bool on_doubt) {
    for (const int access : {O_RDONLY, O_WRONLY}) {
        const UniqueFd queue(
            static_cast<int>(::syscall(SYS_mq_open, name, access | O_NONBLOCK | O_CLOEXEC, 0, nullptr)));
        struct stat status {};
        if (queue) return ::fstat(queue.get(), &status) == 0 && status.st_ino == inode;
        if (errno != EACCES) return false;
    }
    return on_doubt;
}

const std::string& shared_memory_place() {
    static const std::string place = [] {
        char path[PATH_MAX];
        return std::string(::realpath("/dev/shm", path) != nullptr ? path : "/dev/shm");
    }();
    return place;
}

std::optional<SharedFile> shared_file(int directory, const char* name) {
    struct statx status {};
    constexpr int flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT;
    if (::statx(directory, name, flags, STATX_INO | STATX_BTIME, &status) != 0) return std::nullopt;
    constexpr std::uint64_t second_ns = 1'000'000'000;
    const auto born =
        (status.stx_mask & STATX_BTIME) == 0
            ? 0
            : static_cast<std::uint64_t>(status.stx_btime.tv_sec) * second_ns + status.stx_btime.tv_nsec;
    return SharedFile{status.stx_ino, born};
}

void kill_created_groups(const CreatedIpc& made) {
    for (const CreatedIpc::Group& group : made.groups) {
        if (!group.used.load() || !group.unified.load()) continue;
        const UniqueFd directory(::open(group.path.data(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        const UniqueFd kill(::openat(directory.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
        static_cast<void>(::write(kill.get(), "1", 1) == 0);
    }
}

void remove_group(const CreatedIpc::Group& group) {
    if (::rmdir(group.path.data()) == 0 || errno != EACCES) return;
    const OverrideInUse override;
    ::rmdir(group.path.data());
}

bool any_group(const CreatedIpc& made) {
    return std::ranges::any_of(made.groups, [](const CreatedIpc::Group& group) { return group.used.load(); });
}

bool holds_nothing(const CreatedIpc& made) {
    const bool queues =
        made.any_queue.load() &&
        std::ranges::any_of(made.message_queues, [](const auto& one) { return one.used.load(); });
    return !queues && made.shared_files.count.load() == 0 &&
           std::ranges::all_of(made.ids, [](const auto& one) { return one.count.load() == 0; });
}

void remove_created_ipc(const CreatedIpc& made) {
    for (std::size_t kind = 0; kind < object_kinds; ++kind) {
        const CreatedIpc::Ids& ids = made.ids[kind];
        const std::uint32_t count = std::min(ids.count.load(), CreatedIpc::max_ids);
        for (std::uint32_t index = 0; index < count; ++index)
            remove_id(static_cast<ObjectKind>(kind), ids.values[index].load());
    }
    for (const CreatedIpc::Group& group : made.groups)
        if (group.used.load()) remove_group(group);
    remove_shared_files(made.shared_files);
    if (!made.any_queue.load()) return;
    for (const CreatedIpc::Name& name : made.message_queues) {
        if (!name.used.load() || !is_message_queue(name.text.data(), name.inode.load(), true)) continue;
        ::syscall(SYS_mq_unlink, name.text.data());
    }
}

}  // namespace callgate::agent
