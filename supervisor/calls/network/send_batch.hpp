// Elements of one sendmmsg(2) that go the same way: copied together, judged once, sent together.
//
// An attacker controls every byte and may change it at any time. Each is read once; the copy is compared,
// judged and sent. A batch takes only the plainest elements: datagrams of an internet socket, one part each,
// no control data, the same bytes of address. All others are handled one by one.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/calls/socket_address.hpp"

namespace callgate::calls {

class Batch {
public:
    /// Whether elements for such a socket, sent with these flags, may be taken together at all.
    [[nodiscard]] static bool possible(const SocketKind& kind, int flags);
    /// The first elements at `at` that are alike, at most `count`. Fewer than two: none was copied.
    [[nodiscard]] static Batch read(pid_t thread, std::uint64_t at, std::size_t count);

    [[nodiscard]] std::size_t size() const { return sizes_.size(); }
    [[nodiscard]] std::size_t first_size() const { return sizes_.front(); }
    /// Writes each element's length to the target; returns how many could be written. Call it before sending:
    /// if a length cannot be written, the kernel sends that element and none after it.
    [[nodiscard]] std::size_t write_lengths(pid_t thread, std::uint64_t at) const;
    /// Restores the lengths from the element `from` on: these elements were not sent.
    void take_back(pid_t thread, std::uint64_t at, std::size_t from) const;
    void shorten(std::size_t count);
    /// sendmmsg(2): the number sent, or -1 with errno.
    [[nodiscard]] int send(int socket, int flags);

    std::optional<SocketAddress> address;  // of all elements; none: the socket's own peer

private:
    std::vector<unsigned> sizes_, lengths_before_;
    std::vector<std::byte> payload_;  // one after the other
};

}  // namespace callgate::calls
