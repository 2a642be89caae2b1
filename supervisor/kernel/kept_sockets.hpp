// Copies of the sockets that callgate made for the run, where a container's profile refuses pidfd_getfd(2).
//
// There the filter notifies socket(2). callgate makes the socket, gives it to the caller by ADDFD and keeps a
// copy. A later connect, bind, listen or send is made on that copy. `of` finds it by the inode that
// /proc/TID/fd/N leads to (docs/dev/kernel-facts.md 50).
//
// An attacker controls what the number leads to at every moment. The copy that was found is judged and acted
// on, so a sibling's dup2 changes nothing. A socket that has no copy is refused, and that is on record: it
// was inherited, accepted, one of a pair, or passed in. The kernel gives a number to a second socket after
// 2^32 others. Then the copy of another socket of the run is found. The judged act is made on that one.
//
// **How long a copy lives.** While it is open, the run's own close(2) ends nothing. So a stream loses its
// copy before the answer to the call by which it is connected or listens. Its end is then seen as early as
// bare. While a connect is under way the copy stays, and a thread waits for its end. Datagram sockets connect
// and send as often as they like: their copies stay. A copy that no process of the run holds any more is
// found by a reading of /proc/*/fd (`sweep`). That is done four times a second while there are copies, and
// takes at most a hundredth of a processor. A bind that finds its address taken sweeps first, and tries
// again. So does a socket(2) that finds too many copies.
//
// A descriptor on its way in a message is in no process. A sweep that meets it there forgets its socket.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/process/capabilities.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate::kernel {

/// Any thread. One object at most in a process: `kernel::descriptor_copy` asks it.
class KeptSockets {
public:
    /// `listeners`: sockets that listen for internet streams keep their copies (OwnServers).
    KeptSockets(pid_t guardian, CapabilitySet keep_capabilities, bool listeners);
    KeptSockets(const KeptSockets&) = delete;
    KeptSockets& operator=(const KeptSockets&) = delete;
    ~KeptSockets();

    /// Null: descriptors are copied from their holders.
    [[nodiscard]] static KeptSockets* in_use() { return current.load(std::memory_order_relaxed); }

    /// Keeps a copy of a socket that is about to be given to `maker`; returns its inode. EMFILE: there are
    /// too many. No sweep forgets it before `given`.
    [[nodiscard]] Result<ino_t> add(int socket, pid_t maker);
    void given(ino_t inode);
    void forget(ino_t inode);

    /// A copy of the thread's descriptor `number`. EBADF, ENOTSOCK; EPERM: none is kept.
    [[nodiscard]] Result<UniqueFd> of(pid_t thread, int number);

    /// After an act on a copy that returned `error`: forgets a stream that is connected or listens.
    void settle(int socket, int error);

    /// The kernel's answers to further calls on a stream that was settled.
    struct Settled {
        int connect = 0, listen = 0;  // the errno
    };
    /// Returns nothing if the descriptor's socket was not settled.
    [[nodiscard]] std::optional<Settled> settled(pid_t thread, int number);

    /// Forgets the sockets that no process of the run holds.
    void sweep();

private:
    struct Kept {
        UniqueFd socket;
        pid_t maker = 0;
        bool given = false, watched = false;
    };
    using Lost = std::unordered_map<ino_t, pid_t>;  // inode and maker

    void run(CapabilitySet keep_capabilities);
    void forget_locked(ino_t inode);
    void watch(ino_t inode, Kept& kept);
    void resume(ino_t inode);
    void leave_out_held(Lost& lost) const;

    static inline std::atomic<KeptSockets*> current{nullptr};

    const pid_t guardian_;
    const bool listeners_;
    const std::size_t max_kept_;
    const UniqueFd events_, wake_;
    std::mutex mutex_;
    std::unordered_map<ino_t, Kept> kept_;
    std::unordered_map<ino_t, Settled> settled_;
    bool awake_ = false, ending_ = false;
    std::mutex sweeping_;
    std::thread thread_;
};

/// The inode of the socket that the thread's descriptor `number` is. EBADF, ENOTSOCK.
[[nodiscard]] Result<ino_t> socket_inode(pid_t thread, int number);

}  // namespace callgate::kernel
