// How the listener comes to the supervisor where pidfd_getfd(2) is refused, as the profiles of containers do:
// a process carries it over a socket (SCM_RIGHTS of unix(7)).
//
// The agent itself may not be able to send: once it is confined its own sendmsg may wait for the very listener
// that is to be sent. So before that it makes a courier that is not filtered and shares its descriptors. The
// courier is gone before the command begins: no copy of the listener stays anywhere.
#pragma once

#include <sys/types.h>

#include <boost/system/result.hpp>

#include "base/unique_fd.hpp"

namespace callgate::agent {

/// Whether a filter around us, or an old kernel, refuses pidfd_getfd(2) whatever it is asked for.
/// Async-signal-safe.
[[nodiscard]] bool taking_descriptors_is_refused();

/// Two ends of a socket, CLOEXEC and above 2.
struct HandoverSocket {
    UniqueFd send, receive;
};
/// Errors of socketpair(2), fcntl(2).
[[nodiscard]] boost::system::result<HandoverSocket> make_handover_socket();

/// In the agent. Async-signal-safe throughout.
class Courier {
public:
    /// Begins to wait for something to carry to `socket`. 0 or errno.
    [[nodiscard]] int start(int socket);
    /// Carries `descriptor`, and is gone afterwards. 0 or errno.
    [[nodiscard]] int carry(int descriptor);

private:
    pid_t process_ = -1;
    int read_ = -1, write_ = -1;
};

/// In the supervisor: what the courier has sent. Errors of recvmsg(2); EPROTO where it brings no descriptor.
[[nodiscard]] boost::system::result<UniqueFd> receive_descriptor(const UniqueFd& socket);

}  // namespace callgate::agent
