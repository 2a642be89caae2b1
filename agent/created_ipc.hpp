// IPC objects and control groups that a run created: System V shared memory, semaphores and queues, POSIX
// message queues, POSIX shared memory and semaphores (which are files), control groups. They belong to the
// whole user and outlive every process, so the run removes what it leaves.
//
// The list lies in memory that supervisor and guardian share. The supervisor removes the remaining objects at
// the end of a run. If the supervisor was killed, the guardian does; an object that is created in that very
// instant stays. Only the supervisor writes, one thread at a time; at every moment each entry names a created
// object. The target controls how many entries there are, up to the limits here, and never what an entry
// says.
#pragma once

#include <array>
#include <atomic>
#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace callgate::agent {

/// An entry directly beneath the directory of POSIX shared memory. The kernel gives no inode number twice
/// there; the time of birth is the second witness (0 where none is kept).
struct SharedFile {
    std::uint64_t inode = 0, born = 0;
    bool operator==(const SharedFile&) const = default;
};

enum class ObjectKind : std::uint8_t { memory, semaphores, queue };
inline constexpr std::size_t object_kinds = 3;

struct CreatedIpc {
    /// Bound for each kind of object in one run. An id comes back only after the kernel's sequence numbers
    /// have gone round, which takes more objects than this bound (ipc/util.c, ipc_idr_alloc). The kernel
    /// needs at least 21 objects for each of 65,536 numbers; with the boot option ipcmni_extend, 1,365 for
    /// each of 128. So no object of an outside process ever has an id that stands in the list.
    static constexpr std::uint32_t max_ids = std::uint32_t{1} << 17;
    struct Ids {
        std::atomic<std::uint32_t> count{0};
        std::array<std::atomic<std::int32_t>, max_ids> values;
    };
    /// Whether any message queue was created; otherwise the pages of their names are never touched.
    std::atomic<bool> any_queue{false};
    std::array<Ids, object_kinds> ids;

    static constexpr std::size_t max_names = 256, max_name = 255;
    struct Name {
        std::atomic<bool> used{false};
        std::atomic<std::uint64_t> inode{0};
        std::array<char, max_name + 1> text;
    };
    std::array<Name, max_names> message_queues;

    static constexpr std::uint32_t max_files = 4096;
    struct File {
        std::atomic<std::uint64_t> inode, born;
    };
    struct Files {
        std::atomic<std::uint32_t> count{0};
        std::array<File, max_files> values;
    } shared_files;

    /// Control groups; they can be removed only after the tree has ended.
    struct Group {
        std::atomic<bool> used{false};
        std::atomic<bool> unified{false};  // version 2: its members can be killed at once
        std::array<char, 4096>
            path;  // NUL-terminated: the mapping starts zeroed, and each path is written once
    };
    std::array<Group, 3> groups;
};

/// The list, in a mapping that children inherit.
class SharedObjects {
public:
    /// Errors: ENOMEM.
    [[nodiscard]] static boost::system::result<SharedObjects> make();
    SharedObjects(SharedObjects&& other) noexcept;
    SharedObjects& operator=(SharedObjects&&) = delete;
    ~SharedObjects();

    [[nodiscard]] CreatedIpc& objects() const { return *objects_; }

private:
    explicit SharedObjects(CreatedIpc* objects) : objects_(objects) {}
    CreatedIpc* objects_;
};

/// Kills all members of the control groups at once, if the kernel can (cgroup.kill, version 2, Linux 5.14).
/// So even a fast fork bomb cannot escape.
void kill_created_groups(const CreatedIpc& created);

/// Removes a control group without members. The directory around it may refuse: the kernel gives the roots of
/// version 1 mode 0555. CAP_DAC_OVERRIDE is then used, which was set aside for this
/// (base/process/capabilities).
void remove_group(const CreatedIpc::Group& group);

/// Whether the list has no System V object, message queue or file of shared memory.
[[nodiscard]] bool holds_nothing(const CreatedIpc& created);

/// Whether there is any control group.
[[nodiscard]] bool any_group(const CreatedIpc& created);

/// The directory of POSIX shared memory and semaphores, without links: "/dev/shm", or where that leads.
[[nodiscard]] const std::string& shared_memory_place();
/// The object at `name` beneath `directory`, or `directory` itself (name ""). A link is not followed.
[[nodiscard]] std::optional<SharedFile> shared_file(int directory, const char* name);

/// Removes every object of the list. Call it when no process of the run is left.
void remove_created_ipc(const CreatedIpc& created);

/// Whether the POSIX message queue of this name is the object with this inode. The queue is opened for
/// reading or writing to find out. If its mode forbids both, the answer is `on_doubt`.
[[nodiscard]] bool is_message_queue(const char* name, std::uint64_t inode, bool on_doubt);

}  // namespace callgate::agent
