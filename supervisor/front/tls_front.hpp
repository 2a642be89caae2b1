// The supervisor's side of the front (relay/front.hpp): starts it, dials for it, and hears what it refused.
//
// A connect that was allowed by name is made in two steps. First the supervisor connects a socket of its own
// to the judged address. Then it connects the caller's socket to the front, and passes the front its own. So
// the caller's connect has upstream's result. A dead address is refused or unreachable, and a program goes on
// to the next one.
//
// An attacker controls the caller's socket, which was copied: its options, whether it blocks, and what it is
// bound to. The threads of the caller can act on that socket meanwhile. The front hears of a source address
// only if a socket that connected to it had that address. The upstream socket was connected by the supervisor
// alone. If a sibling thread connects the socket first, the caller's connect fails as natively (EALREADY,
// EISCONN).
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/expected.hpp"
#include "base/process/spawn.hpp"
#include "base/unique_fd.hpp"
#include "relay/protocol.hpp"

namespace callgate::front {

class TlsFront {
public:
    /// How long a caller that does not block waits for upstream before its connect goes on without the
    /// result.
    static constexpr std::chrono::milliseconds longest_wait{250};

    /// Starts the process. Call it from a thread that lives as long as the run: the front is killed with it.
    [[nodiscard]] static Expected<std::unique_ptr<TlsFront>> start(const SignalState& signals);
    TlsFront(const TlsFront&) = delete;
    TlsFront& operator=(const TlsFront&) = delete;
    /// Closes the connections, too.
    ~TlsFront() = default;

    /// Called once with what became of a connection's beginning. On the thread that calls `take_judged`.
    using Begun = std::function<void(const relay::Judged&)>;
    /// Connects `socket` (a TCP socket of the caller's) to `address` through the front, for a client that
    /// asks for one of `names`. Returns 0 or the errno of connect(2); EINTR if a signal came first. Any
    /// thread; waits as the socket does.
    [[nodiscard]] int connect(int socket, const sockaddr* address, socklen_t length,
                              const std::vector<std::string>& names, Begun begun);

    /// Readable when `take_judged` has something to do.
    [[nodiscard]] int control() const { return control_.get(); }
    /// Calls what waits for these words. Returns false once the front has ended, which it does not by itself.
    bool take_judged();
    [[nodiscard]] pid_t process() const { return child_.pid; }

private:
    TlsFront() = default;
    /// Connects a new socket to the address. `waits`: until there is a result.
    [[nodiscard]] Result<UniqueFd> dial(const sockaddr* address, socklen_t length, bool waits) const;
    [[nodiscard]] int enter(int socket) const;
    [[nodiscard]] bool announce(relay::Announced announced, const std::vector<std::string>& names,
                                const UniqueFd& upstream);

    Child child_;
    UniqueFd control_;
    std::uint16_t port_v4_ = 0, port_v6_ = 0;  // network order; 0: no such listener
    std::atomic<std::uint64_t> next_id_{1};
    std::mutex lock_;
    std::unordered_map<std::uint64_t, Begun> begun_;
};

}  // namespace callgate::front
