// shutdown and setsockopt, where they could take the port from a server of the run's own, or open it to
// others (own_servers.hpp).
//
// An attacker controls the descriptor's number (the very socket is copied) and the option's value (copied
// once). Neither call is a matter of rules. Each is performed on the copied socket while no connect to a
// server of the run's own is under way. Never continued: it would not wait for them.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/test_switch.hpp"
#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/own_servers.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

/// Performs `act(fd)` while no connect is under way, and answers with its result.
template <class Act>
void perform(NetworkCall& context, PinnedSocket& socket, const Act& act) {
    std::unique_lock<ListenerLock> changes;
    if (context.network.own_servers != nullptr && check_enabled(context.entry.name))
        changes = std::unique_lock(context.network.own_servers->changes);
    const int error = act(socket.fd.get());
    if (changes) changes.unlock();
    finish(context, socket, 0, 0, error);
}

bool is_bound_stream(const PinnedSocket& socket) {
    const auto local = local_address(socket.fd.get());
    return socket.kind.internet() && socket.kind.type == SOCK_STREAM && (!local || local->port() != 0);
}

}  // namespace

/// The filter notifies those that stop receiving.
void handle_shutdown(NetworkCall& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!context.call.waiting()) return;
    if (!socket) return fail_descriptor_unavailable(context, rules::Operation::bind, socket.error().value());
    perform(context, *socket, [&](int fd) { return ::shutdown(fd, context.integer(1)) == 0 ? 0 : errno; });
}

/// The filter notifies SO_REUSEPORT alone. The kernel reads an int, and ignores what follows it.
void handle_setsockopt(NetworkCall& context) {
    auto socket = pin_socket(context, context.integer(0));
    const auto value = kernel::read_object<int>(context.thread(), context.word(3));
    if (!context.call.waiting()) return;
    if (!socket) return fail_descriptor_unavailable(context, rules::Operation::bind, socket.error().value());
    if (context.integer(4) < static_cast<int>(sizeof(int))) return refuse(context, *socket, EINVAL);
    if (!value) return refuse(context, *socket, EFAULT);
    perform(context, *socket, [&](int fd) {
        if (*value != 0 && is_bound_stream(*socket) && check_enabled(context.entry.name)) return EPERM;
        return ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &*value, sizeof *value) == 0 ? 0 : errno;
    });
}

}  // namespace callgate::calls
