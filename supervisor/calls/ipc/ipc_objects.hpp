// Which objects of the whole user (System V and POSIX message queues) are the run's own.
//
// They are kept by the ids and inodes that the kernel gave when they were made on behalf. An id in the list
// never belongs to an outside process (agent/created_ipc.hpp says why). Any thread: short locks. Making and
// looking up by key or name hold the lock of their kind. So no process of the run meets an object that is
// made but not yet known. `also` lists the objects of all nested runs, so that they are removed if the
// supervisor is lost; no caller is judged by it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "agent/created_ipc.hpp"

namespace callgate::calls {

using agent::ObjectKind;

/// Ids of one kind.
class OwnIds {
public:
    /// Bound for the semaphores of all sets together. The kernel takes 64 bytes for each as soon as the set
    /// is made, and they are callgate's. No limit of the run holds them.
    static constexpr std::uint32_t max_semaphores = std::uint32_t{1} << 17;

    explicit OwnIds(agent::CreatedIpc::Ids& list, OwnIds* also = nullptr) : list_(list), also_(also) {}

    [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
    // With the lock held:
    [[nodiscard]] bool has(int id) const { return own_.contains(id); }
    /// Whether no further one may be made in this run, with so many semaphores in it.
    [[nodiscard]] bool exhausted(std::uint32_t semaphores = 0) const;
    void add(int id, std::uint32_t semaphores = 0);
    void remove(int id);

    /// Takes the lock itself.
    [[nodiscard]] bool owns(int id) {
        const auto held = lock();
        return has(id);
    }

private:
    std::mutex mutex_;
    agent::CreatedIpc::Ids& list_;
    OwnIds* const also_;
    struct Own {
        std::uint32_t position = 0, semaphores = 0;
    };
    std::unordered_map<int, Own> own_;
    std::uint32_t made_ = 0;
    std::uint64_t semaphores_ = 0;  // of all that are there
};

/// POSIX message queues by name.
class OwnQueues {
public:
    explicit OwnQueues(agent::CreatedIpc& made, OwnQueues* also = nullptr)
        : any_(made.any_queue), names_(made.message_queues), also_(also) {}

    [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
    // With the lock held:
    /// The inode that was made under this name, 0 none.
    [[nodiscard]] std::uint64_t inode(std::string_view name) const;
    [[nodiscard]] bool full() const;
    /// `name` has at most 255 bytes. The list is not full.
    void add(std::string_view name, std::uint64_t inode);
    void remove(std::string_view name);

private:
    void remove(std::string_view name, std::uint64_t inode);

    std::mutex mutex_;
    std::atomic<bool>& any_;
    std::array<agent::CreatedIpc::Name, agent::CreatedIpc::max_names>& names_;
    OwnQueues* const also_;
};

struct IpcObjects {
    explicit IpcObjects(agent::CreatedIpc& made, IpcObjects* also = nullptr)
        : ids{OwnIds(made.ids[0], also == nullptr ? nullptr : &also->ids[0]),
              OwnIds(made.ids[1], also == nullptr ? nullptr : &also->ids[1]),
              OwnIds(made.ids[2], also == nullptr ? nullptr : &also->ids[2])},
          queues(made, also == nullptr ? nullptr : &also->queues) {}

    [[nodiscard]] OwnIds& of(ObjectKind kind) { return ids[static_cast<std::size_t>(kind)]; }

    std::array<OwnIds, agent::object_kinds> ids;
    OwnQueues queues;
};

}  // namespace callgate::calls
