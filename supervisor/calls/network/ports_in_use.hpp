// Ports in use according to /proc/net, found out without taking one.
//
// An attacker chooses the address that is looked up, and may be shown no more than a bind of its own would
// tell it.
#pragma once

#include "supervisor/calls/socket_address.hpp"

namespace callgate::calls {

/// Whether some socket listens at (TCP), or is bound to (UDP), the port of an internet address, and to an
/// address that overlaps with it. A TCP socket that is bound and does not listen is not seen.
[[nodiscard]] bool port_is_taken(const SocketKind& kind, const SocketAddress& address);

}  // namespace callgate::calls
