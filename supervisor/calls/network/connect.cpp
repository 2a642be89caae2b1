// connect.
//
// An attacker controls the address (copied once), the descriptor's number and the names on the way to a
// pathname socket (pinned_socket.hpp). The copied address is judged and connected, on the copied socket; the
// kernel never reads the target's memory again. A denied connect does nothing to any socket, so its peer sees
// nothing of it. Never continued.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/network/pinned_socket.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

struct Connecting {
    PinnedSocket socket;
    SocketAddress address;
};

/// Socket and address, in the kernel's order of errors: EBADF, then EINVAL and EFAULT, then ENOTSOCK.
Result<Connecting> take(NetworkCall& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!socket && socket.error().value() != ENOTSOCK) return socket.error();
    const auto address = read_address(context.thread(), context.word(1), context.integer(2));
    if (!address) return address.error();
    if (!socket) return socket.error();
    return Connecting{std::move(*socket), *address};
}

/// Connects without a decision, where no rule applies: the answer is the kernel's own.
void connect_unchecked(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address) {
    const int result = ::connect(socket.fd.get(), address.get(), address.length);
    finish(context, socket, 0, 0, result == 0 ? 0 : errno);
}

/// Whether connect on this socket returns (nearly) at once. A connection on this host blocks only on a full
/// backlog, and then the receivers' watchdog notices.
bool returns_at_once(const PinnedSocket& socket, const Subject& subject) {
    if (socket.kind.type == SOCK_DGRAM || socket.kind.domain == AF_UNIX) return true;
    if (const auto* endpoint = std::get_if<rules::Endpoint>(&subject.object)) {
        const auto& bytes = endpoint->address.bytes;
        if (!endpoint->address.v6 && bytes[0] == 127) return true;
    }
    return (::fcntl(socket.fd.get(), F_GETFL) & O_NONBLOCK) != 0;
}

void connect_judged(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address,
                    const Subject& subject, std::uint64_t sequence) {
    const bool declared = !returns_at_once(socket, subject) || context.blocking.expects_blocking();
    if (declared && !context.blocking.enter()) {
        socket.fd.reset();
        return deny_failure(context, subject, EAGAIN, "overload: too many calls are blocked");
    }
    const int result = ::connect(socket.fd.get(), address.get(), address.length);
    const int error = result == 0 ? 0 : errno;
    if (declared) context.blocking.leave();
    finish(context, socket, sequence, 0, error);
}

void connect_internet(NetworkCall& context, Connecting& call) {
    const auto endpoint = endpoint_of(call.address, call.socket.kind, Role::destination);
    // Dissolving an association (AF_UNSPEC) reaches nobody. The kernel itself refuses an address that names
    // no endpoint.
    const bool dissolves = call.address.family() == AF_UNSPEC && call.address.length >= sizeof(sa_family_t);
    if (dissolves || !endpoint) return connect_unchecked(context, call.socket, call.address);
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = *endpoint;
    const rules::Verdict verdict = evaluate(context, subject);
    if (restricted(context, subject, verdict)) {
        if (const int error = refused_connect(call.socket, call.address))
            return refuse(context, call.socket, error);
    }
    const Decision decision = decide_with(context, subject, verdict);
    if (!decision.allowed()) return refuse(context, call.socket, decision.error);
    make_destination_concrete(call.address);
    connect_judged(context, call.socket, call.address, subject, decision.sequence);
}

void connect_abstract(NetworkCall& context, Connecting& call, const std::string& name) {
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = rules::UnixObject{name, call.socket.kind.unix_type()};
    const Decision decision = decide(context, subject);
    if (!decision.allowed()) return refuse(context, call.socket, decision.error);
    connect_judged(context, call.socket, call.address, subject, decision.sequence);
}

void connect_path(NetworkCall& context, Connecting& call, const std::string& name) {
    const auto peer = find_unix_peer(context, name);
    if (!context.call.waiting()) return;
    if (!peer) return refuse(context, call.socket, peer.error().value());
    // A file that is no socket has no listener; the kernel's error depends on whether it may be written.
    if (!S_ISSOCK(peer->object.status.st_mode)) return connect_unchecked(context, call.socket, peer->address);
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = rules::UnixObject{peer->object.path, call.socket.kind.unix_type()};
    subject.identity = identity_of(peer->object.status);
    subject.input = input_of(peer->given);
    if (peer->object.unlinked) {
        call.socket.fd.reset();
        return deny_failure(context, subject, ECONNREFUSED, "the socket has no name left");
    }
    const Decision decision = decide(context, subject);
    if (!decision.allowed()) return refuse(context, call.socket, decision.error);
    connect_judged(context, call.socket, peer->address, subject, decision.sequence);
}

}  // namespace

void handle_connect(NetworkCall& context) {
    auto call = take(context);
    if (!context.call.waiting()) return;
    if (!call) return fail_descriptor_unavailable(context, Operation::connect, call.error().value(), {1, 2});
    if (call->socket.kind.internet()) return connect_internet(context, *call);
    // The only other family that can exist is NETLINK_ROUTE: its peer is the kernel.
    const auto name = call->socket.kind.domain == AF_UNIX ? unix_name(call->address) : std::nullopt;
    if (!name) return connect_unchecked(context, call->socket, call->address);
    if (name->abstract) return connect_abstract(context, *call, "@" + name->name);
    connect_path(context, *call, name->name);
}

}  // namespace callgate::calls
