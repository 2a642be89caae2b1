// The calls of one container: its listener, with the part of the filter that an OCI profile cannot express.
//
// The runtime installs the filter before it executes the container's program, so its own last calls are
// notified too. It is trusted, as it has made the container. These calls are continued, until its first
// execve. No program of the container has this filter before that.
//
// From that execve on an attacker controls number and arguments, which are registers: nobody can change them
// any more. The filter decides on them here as it does in the kernel of a run (enforce/filter_spec.hpp). What
// it lets pass is continued, what it refuses gets the same errno, and only what it notifies is handled.
//
// No Landlock domain holds what a second look of the kernel could find. So a handled call is never continued
// (`may_continue`): it is made on behalf or denied. getsockname only writes.
// An execve is continued while its caller is held by ptrace, and what then runs is judged before its first
// instruction (calls/exec/watch.hpp).
#pragma once

#include <atomic>
#include <vector>

#include "supervisor/enforce/seccomp/compiler.hpp"
#include "supervisor/kernel/listener.hpp"

namespace callgate::container {

class ContainerSource final : public kernel::NotificationSource {
public:
    /// `filter` is compiled of the container's rules, with refusals that have a kind notified.
    ContainerSource(UniqueFd listener, std::vector<sock_filter> filter);

    Result<kernel::Notification> receive() override;
    Result<void> answer(std::uint64_t id, const kernel::Answer& answer) override {
        return listener_.answer(id, answer);
    }
    Result<int> add_descriptor(std::uint64_t id, int fd, bool close_on_exec) override {
        return listener_.add_descriptor(id, fd, close_on_exec);
    }
    Result<void> put_descriptor(std::uint64_t id, int fd, int number) override {
        return listener_.put_descriptor(id, fd, number);
    }
    bool waiting(std::uint64_t id) override { return listener_.waiting(id); }
    bool may_continue(const kernel::Notification& call) override;
    bool finished() override { return listener_.finished(); }
    bool pending() override { return listener_.pending(); }
    bool wake_synchronously(bool on) override { return listener_.wake_synchronously(on); }

private:
    [[nodiscard]] bool answered(const kernel::Notification& call);

    kernel::Listener listener_;
    const std::vector<sock_filter> filter_;
    std::atomic<bool> began_{false};  // the runtime has executed the container's program
};

}  // namespace callgate::container
