// Sends the listener to the supervisor if pidfd_getfd(2) is refused, as by the profiles of containers. A
// process carries it over a socket (SCM_RIGHTS of unix(7)).
//
// The agent may be unable to send it: once the agent is confined, its sendmsg may wait for the listener that
// it would send. So before that it forks a courier, which is not filtered and shares its descriptors. The
// courier ends before the command begins: no copy of the listener remains.
#pragma once

#include <sys/types.h>

#include <boost/system/result.hpp>

#include "base/unique_fd.hpp"

namespace callgate::agent {

/// Whether a filter around us, or an old kernel, refuses every pidfd_getfd(2). Async-signal-safe.
[[nodiscard]] bool pidfd_getfd_refused();

/// Two ends of a socket, CLOEXEC and above 2.
struct HandoverSocket {
    UniqueFd send, receive;
};
/// Errors of socketpair(2), fcntl(2).
[[nodiscard]] boost::system::result<HandoverSocket> make_handover_socket();

/// The agent's side. Async-signal-safe throughout.
class Courier {
public:
    /// Starts the courier, which waits for a descriptor to send to `socket`. Returns 0 or errno.
    [[nodiscard]] int start(int socket);
    /// Sends `descriptor` and reaps the courier. Returns 0 or errno.
    [[nodiscard]] int carry(int descriptor);

private:
    pid_t process_ = -1;
    int read_ = -1, write_ = -1;
};

/// The supervisor's side: receives the courier's descriptor. Errors: those of recvmsg(2); EPROTO if no
/// descriptor arrived.
[[nodiscard]] boost::system::result<UniqueFd> receive_descriptor(const UniqueFd& socket);

}  // namespace callgate::agent
