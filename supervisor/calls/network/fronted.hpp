// Connects by name that go through the front, which checks the name that the client asks for by TLS.
//
// supervisor/front/tls_front.hpp says what an attacker controls, and relay/front.hpp how the name is checked.
// The connect was judged and recorded before. If the front then refuses, a second record says so, with the
// first one's number.
#pragma once

#include "supervisor/calls/network/pinned_socket.hpp"
#include "supervisor/names/bindings.hpp"

namespace callgate::calls {

/// Whether an allowed connect to an address with names goes through the front. It does if the run or a nested
/// one around the caller allows it by name, and no rule there that matches says `"tls": "pass"`.
[[nodiscard]] bool goes_through_front(NetworkCall& context, const Subject& subject);

/// Connects the socket for a client that asks for one of the names by which the rules allow this connect, and
/// answers the call.
void connect_through_front(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address,
                           const Subject& subject, const rules::Verdict& verdict,
                           const names::Bindings::Names& names, std::uint64_t sequence);

}  // namespace callgate::calls
