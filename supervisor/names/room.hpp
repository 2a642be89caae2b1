// The room: a network namespace without a way out, from which the run gets its UDP sockets.
//
// The address of a datagram lies in the target's memory, so a real UDP socket could send a name anywhere. A
// socket of the room reaches only the room. Every address is local there, port 53 of each is our name server,
// and only the run's own sockets listen elsewhere. So nothing that an attacker sends on it needs to be
// judged. The attacker is the same user as the owner of the namespace, and can break the room for itself. It
// cannot enter the room, because setns(2) needs a capability that the target lacks, and cannot connect it to
// anything.
//
// A helper process makes the sockets, because only a process with one thread can enter a user namespace. It
// ends with the supervisor: the socket between them closes. Any thread.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/names/asker.hpp"

namespace callgate::names {

/// An address as an IPv6 socket has it, and the port: what tells the sockets of one network apart.
using Place = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;
[[nodiscard]] Place place_of(const sockaddr_storage& address);

class Room {
public:
    Room() = default;
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    ~Room();

    /// A UDP socket of the room; `type` may hold SOCK_NONBLOCK. The room is made at the first call. Errors of
    /// socket(2); EPROTONOSUPPORT if the kernel lets this user make no room, which is then not tried again.
    [[nodiscard]] Result<UniqueFd> socket(int family, int type, Asker asker);
    /// Whether the socket is one of the room.
    [[nodiscard]] bool holds(int socket) const;
    /// The name servers' sockets, bound to port 53 of all addresses: once, after the first `socket`.
    [[nodiscard]] std::vector<UniqueFd> take_servers();
    /// The process that made the socket at this local address, without its judges. It is an unknown one if
    /// none or two sockets are there. A sender chooses its address, so it can pass for another of this room.
    [[nodiscard]] Asker owner(const sockaddr_storage& local);

private:
    enum class State : std::uint8_t { none, ready, failed };
    int make();
    [[nodiscard]] int start();
    [[nodiscard]] Result<std::vector<UniqueFd>> receive(std::size_t count) const;
    [[nodiscard]] std::optional<ino_t> inode_of(int family, const sockaddr_storage& local) const;

    mutable std::mutex lock_;
    State state_ = State::none;
    int error_ = 0;
    pid_t helper_ = -1;
    UniqueFd channel_, diagnosis_;
    std::vector<UniqueFd> servers_;
    std::uint64_t cookie_ = 0;
    std::unordered_map<ino_t, Asker> askers_;  // without their judges
    std::vector<ino_t> order_;                 // of their making
};

/// The machine's own addresses, for each family that has a route. The helper needs them before it leaves.
struct OuterAddresses {
    std::uint8_t four[4] = {}, six[16] = {};
    bool has_four = false, has_six = false;
};
[[nodiscard]] OuterAddresses outer_addresses();

/// The helper: enters new namespaces, makes the room and serves `channel` until it closes. Async-signal-safe,
/// because it runs between fork and exit in a process that has threads. Never returns.
[[noreturn]] void serve_room(int channel, const OuterAddresses& outer);

}  // namespace callgate::names
