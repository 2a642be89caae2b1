// The calls of one container: its listeners, with the part of the filter that an OCI profile cannot express.
//
// The runtime installs the filter before it executes a program of the container, so its own last calls are
// notified too. It is trusted, as it has made the container. These calls are continued, until the first
// execve under that filter. No program of the container has it before that. A process that the runtime adds
// later has a filter and a listener of its own.
//
// From that execve on an attacker controls number and arguments, which are registers: nobody can change them
// any more. The filter decides on them here as it does in the kernel of a run (enforce/filter_spec.hpp). What
// it lets pass is continued, what it refuses gets the same errno, and only what it notifies is handled.
//
// No Landlock domain holds what a second look of the kernel could find. So a handled call is never continued
// (`may_continue`): it is made on behalf or denied. getsockname only writes.
// An execve is continued while its caller is held by ptrace, and what then runs is judged before its first
// instruction (calls/exec/watch.hpp).
//
// The kernel numbers the calls of each listener from a random begin. Should two that wait have one number,
// the later one is refused.
#pragma once

#include <poll.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "supervisor/enforce/seccomp/compiler.hpp"
#include "supervisor/kernel/listener.hpp"

namespace callgate::container {

class ContainerSource final : public kernel::NotificationSource {
public:
    /// `filter` is compiled of the container's rules, with refusals that have a kind notified. Throws
    /// std::system_error if no descriptor is left.
    explicit ContainerSource(std::vector<sock_filter> filter);

    /// Calls of this listener are received from now on. The thread that adds also forgets.
    void add(UniqueFd listener);
    /// Forgets the listeners of which no process is left. Returns false if none is left.
    [[nodiscard]] bool forget_ended();
    /// Entries for poll(2), which end with each listener. For the thread that adds.
    [[nodiscard]] std::vector<pollfd> ends() const;
    /// Whether some program has begun, the first or an added one, that has CAP_SYS_PTRACE. It could have
    /// given that up since, and not what it has started. Any thread.
    [[nodiscard]] bool traces() const { return traces_.load(); }

    Result<kernel::Notification> receive() override;
    Result<void> answer(std::uint64_t id, const kernel::Answer& answer) override;
    Result<int> add_descriptor(std::uint64_t id, int fd, bool close_on_exec) override;
    Result<void> put_descriptor(std::uint64_t id, int fd, int number) override;
    bool waiting(std::uint64_t id) override;
    bool may_continue(const kernel::Notification& call) override;
    bool finished() override;
    bool pending() override;
    bool wake_synchronously(bool on) override;

private:
    struct Handed {
        int number = -1;  // of the listener's descriptor
        kernel::Listener listener;
        std::atomic<bool> began{false};  // the runtime has executed the container's program
    };
    using Process = std::shared_ptr<Handed>;

    [[nodiscard]] Result<Process> next_ready();
    [[nodiscard]] bool answered(Handed& process, const kernel::Notification& call);
    [[nodiscard]] Process of(std::uint64_t id);

    const std::vector<sock_filter> filter_;
    const UniqueFd changed_;  // an eventfd: `all_` is another
    std::atomic<bool> traces_{false};

    mutable std::mutex lock_;
    std::vector<Process> all_;                          // guarded by lock_
    std::unordered_map<std::uint64_t, Process> calls_;  // that wait for an answer; guarded by lock_
    bool synchronously_ = false;                        // guarded by lock_

    std::mutex turn_;              // one thread waits for a call, and then receives it
    std::vector<Process> known_;   // guarded by turn_
    std::vector<pollfd> entries_;  // of `known_` and `changed_`; guarded by turn_
    std::size_t first_ = 0;        // is looked at first; guarded by turn_
};

}  // namespace callgate::container
