// A socket taken out of the caller, what a call says to do with it, and what the kernel would say first.
//
// An attacker controls the descriptor's number (the very socket is taken with pidfd_getfd, so a sibling's
// dup2 changes nothing) and, for a pathname socket, the names on the way (the socket's inode is pinned). The
// copy is closed before the answer: a program that closes its socket and binds the port anew must find it
// free.
#pragma once

#include "base/unique_fd.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/calls/socket_address.hpp"

namespace callgate::calls {

struct PinnedSocket {
    UniqueFd fd;
    SocketKind kind;
};

/// The socket that is descriptor `number` of the caller. EBADF, ENOTSOCK; errors of pidfd_getfd(2).
[[nodiscard]] Result<PinnedSocket> pin_socket(CallContext& context, int number);

/// The unix socket that a path leads to. It lives as long as the call.
struct UnixPeer {
    GivenPath given;
    Object object;
    SocketAddress address;  // leads to the pin, whatever has become of the name
};
/// Resolved for the caller; `name` is copied. Errors as connect(2) gives them for such a path, except what
/// only trying it can tell.
[[nodiscard]] Result<UnixPeer> find_unix_peer(CallContext& context, const std::string& name);

/// The path of a unix address, and where it starts.
[[nodiscard]] Result<GivenPath> unix_path(CallContext& context, const std::string& name);

/// What the kernel refuses before anybody could ask for leave: so that a program that did not get as far as a
/// verdict does not see one (transparency.md). 0 where it would go on. They look at the pinned socket and the
/// copied address alone, and change nothing.
[[nodiscard]] int refused_connect(const PinnedSocket& socket, const SocketAddress& address);
[[nodiscard]] int refused_bind(const PinnedSocket& socket, const SocketAddress& address);
/// A datagram of `size` bytes.
[[nodiscard]] int refused_send(const PinnedSocket& socket, const SocketAddress& address, std::size_t size,
                               int flags);

/// Lets go of the socket and answers with what the act came to: `result`, or `error` where it is not 0. A
/// wait that a signal ended is taken up again as the kernel would (signal(7)); an act that failed is on
/// record too.
void finish(CallContext& context, PinnedSocket& socket, std::uint64_t sequence, std::int64_t result,
            int error);

/// Lets go of the socket and answers a refusal.
inline void refuse(CallContext& context, PinnedSocket& socket, int error) {
    socket.fd.reset();
    context.fail(error);
}

}  // namespace callgate::calls
