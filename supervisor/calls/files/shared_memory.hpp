// POSIX shared memory and semaphores: files directly beneath /dev/shm, which all programs of the user share.
// The run has what it made. Others' is closed to it, whatever the rules say. The rules decide on its own.
//
// An attacker controls path and flags of each call, and makes, links, moves and removes names there at any
// time. So an object is known by its inode and time of birth, never by its name. The list lies in memory that
// the guardian shares (agent/created_ipc.hpp). The entry directly beneath the directory decides, also for
// what lies in a directory there. A judged object must stand beneath that very entry at the moment of the
// look. Landlock grants nothing there (PlanInput::shared_memory), so callgate itself makes each entry. One
// lock is held over making and noting one: no process of the run meets an entry that is made and not yet
// known. The making call's descriptor or pin says what was made. A directory or device node has none. So an
// outside process of the same user that replaces one in that very instant gives its own to the run. One that
// replaces the run's entry between the look and a removal loses its own.
// An object that has lost its name is left to the rules: only who holds it reaches it. Sockets are, too.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "agent/created_ipc.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// Any thread.
class SharedMemory {
public:
    /// `also` lists the objects of all nested runs, so that they are removed if the supervisor is lost.
    explicit SharedMemory(agent::CreatedIpc::Files& list, std::string place = agent::shared_memory_place(),
                          SharedMemory* also = nullptr);

    /// The denial of a call on what the run did not make.
    [[nodiscard]] std::optional<rules::Verdict> refuses(const Subject& subject);

    /// Held from before an entry is made until it is noted. Without a lock if `path` is no entry.
    class Making {
    public:
        /// 0, or the errno of a list that is full.
        [[nodiscard]] int error() const { return error_; }
        /// Whether what is made stands directly beneath the directory.
        [[nodiscard]] bool notes() const { return memory_ != nullptr; }
        /// Notes what stands at `leaf` beneath `directory`, or is `directory` itself (leaf "").
        void note(int directory, const char* leaf);
        /// The same if it still is the object with this status.
        void note(int directory, const char* leaf, const struct stat& expected);

    private:
        friend class SharedMemory;
        SharedMemory* memory_ = nullptr;  // null: nothing to note
        std::unique_lock<std::mutex> lock_;
        int error_ = 0;
    };
    [[nodiscard]] Making making(std::string_view path);
    /// Takes what is not there any more off the list.
    void forget_removed();

private:
    enum class Standing : std::uint8_t { own, foreign, nothing };
    /// The part of `path` after the directory; nothing if it does not lie beneath it.
    [[nodiscard]] std::optional<std::string_view> beneath(std::string_view path) const;
    [[nodiscard]] Standing standing(std::string_view path, const audit::FileIdentity* expected);
    [[nodiscard]] bool owns(const agent::SharedFile& file) const;
    void add(const agent::SharedFile& file);
    void forget_removed_locked();

    const std::string place_;
    std::mutex mutex_;
    agent::CreatedIpc::Files& list_;
    SharedMemory* const also_;
    std::unordered_map<std::uint64_t, std::uint64_t> own_;  // time of birth by inode
};

/// For the call that makes `path`.
[[nodiscard]] inline SharedMemory::Making making_of(const FileCall& context, std::string_view path) {
    return context.files.shared_memory != nullptr ? context.files.shared_memory->making(path)
                                                  : SharedMemory::Making();
}

}  // namespace callgate::calls
