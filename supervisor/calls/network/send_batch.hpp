// Elements of one sendmmsg(2) that go the same way: copied together, judged once, sent together.
//
// An attacker controls every byte and may change it at any time: each is read once, and what was compared,
// judged and sent is the copy. Only what is as plain as can be is taken (datagrams of an internet socket, one
// part each, no control data, the same bytes of address); anything else is left to be handled one by one.
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
    /// The first elements at `at` that are alike, of `count` at most. Fewer than two: nothing was copied.
    [[nodiscard]] static Batch read(pid_t thread, std::uint64_t at, std::size_t count);

    [[nodiscard]] std::size_t size() const { return sizes_.size(); }
    [[nodiscard]] std::size_t first_size() const { return sizes_.front(); }
    /// Writes each element's length where it came from; how many could be written. Before they are sent:
    /// of those whose length cannot be told the kernel sends the first alone.
    [[nodiscard]] std::size_t tell(pid_t thread, std::uint64_t at) const;
    /// Writes what stood there from the element `from` on: those were not sent.
    void take_back(pid_t thread, std::uint64_t at, std::size_t from) const;
    void shorten(std::size_t count);
    /// sendmmsg(2): the number sent, or -1 with errno.
    [[nodiscard]] int send(int socket, int flags);

    std::optional<SocketAddress> address;  // of all; none: where the socket is connected to

private:
    std::vector<unsigned> sizes_, told_before_;
    std::vector<std::byte> payload_;  // one after the other
};

}  // namespace callgate::calls
