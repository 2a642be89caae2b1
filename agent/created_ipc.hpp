// What a run made outside the file systems that it sees: System V shared memory, semaphores and queues, POSIX
// message queues, control groups. They belong to the whole user and outlive every process, so the run removes
// what it leaves.
//
// The list lies in memory that supervisor and guardian share: the supervisor removes what is left when a run
// ends, the guardian where the supervisor was killed (an object that is made in that very instant stays). The
// supervisor alone writes, one thread at a time; at every moment each entry is one that was made. The target
// controls how many there are, up to the limits here, and never what stands in the list.
#pragma once

#include <array>
#include <atomic>
#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>

namespace callgate::agent {

enum class ObjectKind : std::uint8_t { memory, semaphores, queue };
inline constexpr std::size_t object_kinds = 3;

struct CreatedIpc {
    /// Of each kind that one run may make. An id comes back only after the kernel's sequence numbers have
    /// gone round, which takes more than this many (ipc/util.c, ipc_idr_alloc: at least 21 objects for each
    /// of 65,536 numbers; 1,365 for each of 128 with the boot option ipcmni_extend): so no stranger's object
    /// ever has an id that stands in the list.
    static constexpr std::uint32_t most = std::uint32_t{1} << 17;
    struct Ids {
        std::atomic<std::uint32_t> count{0};
        std::array<std::atomic<std::int32_t>, most> values;
    };
    /// Whether there ever was a message queue: else nobody looks at the pages of their names.
    std::atomic<bool> any_queue{false};
    std::array<Ids, object_kinds> ids;

    static constexpr std::size_t max_names = 256, max_name = 255;
    struct Name {
        std::atomic<bool> used{false};
        std::atomic<std::uint64_t> inode{0};
        std::array<char, max_name + 1> text;
    };
    std::array<Name, max_names> message_queues;

    /// Control groups, which can go only when the tree has gone.
    struct Group {
        std::atomic<bool> used{false};
        std::atomic<bool> unified{false};  // of version 2: it can be ended as a whole
        std::array<char, 4096> path;  // ends with NUL: the mapping begins as zeros, and each is written once
    };
    std::array<Group, 3> groups;
};

/// The list, in a mapping that children inherit.
class SharedObjects {
public:
    /// ENOMEM.
    [[nodiscard]] static boost::system::result<SharedObjects> make();
    SharedObjects(SharedObjects&& other) noexcept;
    SharedObjects& operator=(SharedObjects&&) = delete;
    ~SharedObjects();

    [[nodiscard]] CreatedIpc& objects() const { return *objects_; }

private:
    explicit SharedObjects(CreatedIpc* objects) : objects_(objects) {}
    CreatedIpc* objects_;
};

/// Kills all members of the control groups at once, where the kernel can (cgroup.kill, version 2,
/// Linux 5.14): whoever forks as fast as he dies has no chance.
void kill_made_groups(const CreatedIpc& made);

/// Removes a control group that has no member any more. Also where only CAP_DAC_OVERRIDE, set aside
/// (agent/capabilities), opens the directory it is in: the kernel gives the roots of version 1 mode 0555.
void remove_group(const CreatedIpc::Group& group);

/// Whether there is any control group.
[[nodiscard]] bool any_group(const CreatedIpc& made);

/// Removes every object of the list: when no process of the run is left.
void remove_created_ipc(const CreatedIpc& made);

/// Whether the POSIX message queue of this name is the object with this inode: it can be opened for reading
/// or writing, and is. Where its mode forbids both, the name is believed (`on_doubt`).
[[nodiscard]] bool is_message_queue(const char* name, std::uint64_t inode, bool on_doubt);

}  // namespace callgate::agent
