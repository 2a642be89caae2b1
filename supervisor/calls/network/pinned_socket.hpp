// A socket copied from the caller, the peer of a call, and the errors that the kernel would give first.
//
// An attacker controls the descriptor's number. The very socket is copied with pidfd_getfd, so a sibling's
// dup2 changes nothing. Where a profile refuses that call, a kept copy is used (kernel/kept_sockets.hpp). For
// a pathname socket it also controls the names on the way: the socket's inode is pinned. The copy is closed
// before the answer. A program that closes its socket and binds the port anew must find the port free.
#pragma once

#include "base/unique_fd.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/socket_address.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/kernel/kept_sockets.hpp"

namespace callgate::calls {

struct PinnedSocket {
    UniqueFd fd;
    SocketKind kind;
};

/// The socket that is descriptor `number` of the caller. EBADF, ENOTSOCK; errors of pidfd_getfd(2).
[[nodiscard]] Result<PinnedSocket> pin_socket(NetworkCall& context, int number);

/// Whether it is a UDP socket of the room (names/room.hpp), which reaches nothing that would have to be
/// judged.
[[nodiscard]] bool is_of_room(const NetworkCall& context, const PinnedSocket& socket);

/// The unix socket that a path leads to. It lives as long as the call.
struct UnixPeer {
    GivenPath given;
    Object object;
    SocketAddress address;  // leads to the pin, whatever has become of the name
};
/// Resolved for the caller; `name` is copied. Errors as connect(2) gives them for such a path, except what
/// only trying it can tell.
[[nodiscard]] Result<UnixPeer> find_unix_peer(NetworkCall& context, const std::string& name);

/// The path of a unix address, and where it starts.
[[nodiscard]] Result<GivenPath> unix_path(NetworkCall& context, const std::string& name);

/// The errno that the kernel gives before any security hook; 0: none. A program that would not get as far as
/// a verdict then does not see one. These functions look only at the pinned socket and the copied address,
/// and change nothing.
[[nodiscard]] int refused_connect(const PinnedSocket& socket, const SocketAddress& address);
[[nodiscard]] int refused_bind(const PinnedSocket& socket, const SocketAddress& address);
/// A datagram of `size` bytes.
[[nodiscard]] int refused_send(const PinnedSocket& socket, const SocketAddress& address, std::size_t size,
                               int flags);

/// Binds. Returns 0 or an errno.
[[nodiscard]] int bind_socket(const PinnedSocket& socket, const SocketAddress& address);

/// Lets go of the socket and answers with the outcome of the act: `error` if it is not 0, else `result`. A
/// wait that a signal ended is taken up again as the kernel would (signal(7)). A failed act is on record too.
void finish(NetworkCall& context, PinnedSocket& socket, std::uint64_t sequence, std::int64_t result,
            int error);

/// A stream whose copy is gone because it is connected or listens: what a further call on it gives. Its queue
/// stays as long as it was.
[[nodiscard]] std::optional<kernel::KeptSockets::Settled> settled(NetworkCall& context);
void answer_settled(NetworkCall& context, int error);

/// Lets go of the socket and answers a refusal.
inline void refuse(NetworkCall& context, PinnedSocket& socket, int error) {
    socket.fd.reset();
    context.fail(error);
}

}  // namespace callgate::calls
