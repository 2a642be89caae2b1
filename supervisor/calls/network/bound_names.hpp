// The names of unix sockets of which the kernel knows only the last component.
//
// A pathname socket is bound by its leaf, in the pinned directory, where its name may not be resolved a
// second time (bind_by_name.hpp). The program must still get the name that it gave from getsockname(2):
// multiprocessing listens by it. Keyed by the socket's inode, which the kernel does not give out twice while
// it lives. Any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "supervisor/calls/socket_address.hpp"

namespace callgate::calls {

class BoundNames {
public:
    void remember(ino_t socket, const SocketAddress& address) {
        const std::lock_guard lock(mutex_);
        if (names_.size() >= max_names) names_.erase(names_.begin());
        names_[socket] = address;
        empty_.store(false);
    }
    [[nodiscard]] std::optional<SocketAddress> find(ino_t socket) {
        const std::lock_guard lock(mutex_);
        const auto found = names_.find(socket);
        if (found == names_.end()) return std::nullopt;
        return found->second;
    }
    [[nodiscard]] bool empty() const { return empty_.load(); }

private:
    static constexpr std::size_t max_names = 4096;
    std::mutex mutex_;
    std::unordered_map<ino_t, SocketAddress> names_;
    std::atomic<bool> empty_{true};
};

}  // namespace callgate::calls
