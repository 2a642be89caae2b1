// Binding a unix socket by the very name that the program gave, at the place that was judged.
//
// The kernel keeps the text of the address and shows it to peers: the text has to be the program's. It
// resolves that text, once more, when callgate binds. An attacker may have swapped a name on the way since
// then, or chosen a text that leads callgate elsewhere ("/proc/self/..."). So three things hold together.
//
// 1. A short-lived thread binds. It first enters a Landlock domain in which a socket may be made beneath the
//    pinned parent alone. Wherever the text leads, no socket appears outside of that directory.
// 2. Landlock's grant is a whole hierarchy. A text that leads below the parent makes a socket there, with the
//    same last component. The caller of this function makes sure that the rules allow that one as well.
// 3. The name in the pinned parent must then be this socket. The kernel tells which inode a socket is bound
//    to (sock_diag, UDIAG_SHOW_VFS), and which inode a pinned name is. Another one: the socket is shut, and
//    nobody reaches it any more.
//
// A run's own renames and links wait meanwhile: the caller holds the names alone. Processes outside of the
// run do not. Names that they swap are what the three are for.
#pragma once

#include <cstdint>

#include "supervisor/calls/resolve.hpp"
#include "supervisor/calls/socket_address.hpp"

namespace callgate::calls {

enum class BoundByName : std::uint8_t {
    there,      // at the place
    elsewhere,  // the socket is shut
    not_bound,  // it is as it was: the text leads elsewhere, or the kernel lacks something
};

/// Binds a copy of the caller's socket, with this thread's umask and working directory. The latter is where a
/// relative name starts.
[[nodiscard]] BoundByName bind_by_name(int socket, const SocketAddress& address, const Place& place);

}  // namespace callgate::calls
