// connect.
//
// An attacker controls the address (copied once), the descriptor's number and the names on the way to a
// pathname socket (pinned_socket.hpp). What was copied is judged and connected, on the socket that was taken;
// the kernel never reads the target's memory again. A denied connect does nothing to any socket, so nobody
// sees anything of it. Never continued.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "supervisor/calls/network/pinned_socket.hpp"
#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/handlers.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

struct Connecting {
    PinnedSocket socket;
    SocketAddress address;
};

/// Socket and address, in the kernel's order of errors: EBADF, then EINVAL and EFAULT, then ENOTSOCK.
Result<Connecting> take(CallContext& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!socket && socket.error().value() != ENOTSOCK) return socket.error();
    const auto address = read_address(context.thread(), context.word(1), context.integer(2));
    if (!address) return address.error();
    if (!socket) return socket.error();
    return Connecting{std::move(*socket), *address};
}

/// What nobody need be asked about: the kernel's own answer.
void connect_unchecked(CallContext& context, PinnedSocket& socket, const SocketAddress& address) {
    const int result = ::connect(socket.fd.get(), address.get(), address.length);
    finish(context, socket, 0, 0, result == 0 ? 0 : errno);
}

/// Whether connect on this socket returns at once, or as good as: what stays on this host blocks only on a
/// full backlog, and then the receivers' watchdog notices.
bool returns_at_once(const PinnedSocket& socket, const Subject& subject) {
    if (socket.kind.type == SOCK_DGRAM || socket.kind.domain == AF_UNIX) return true;
    if (const auto* endpoint = std::get_if<rules::Endpoint>(&subject.object)) {
        const auto& bytes = endpoint->address.bytes;
        if (!endpoint->address.v6 && bytes[0] == 127) return true;
    }
    return (::fcntl(socket.fd.get(), F_GETFL) & O_NONBLOCK) != 0;
}

void connect_judged(CallContext& context, PinnedSocket& socket, const SocketAddress& address,
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

void connect_internet(CallContext& context, Connecting& call) {
    const auto endpoint = endpoint_of(call.address, call.socket.kind, Role::destination);
    // Dissolving an association (AF_UNSPEC) reaches nobody; what names no endpoint the kernel refuses by
    // itself.
    const bool dissolves = call.address.family() == AF_UNSPEC && call.address.length >= sizeof(sa_family_t);
    if (dissolves || !endpoint) return connect_unchecked(context, call.socket, call.address);
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = *endpoint;
    const rules::Verdict verdict = judge(context, subject);
    if (restricted(context, subject, verdict)) {
        if (const int error = refused_connect(call.socket, call.address))
            return refuse(context, call.socket, error);
    }
    std::uint64_t sequence = 0;
    if (const int error = refusal(context, subject, verdict, &sequence))
        return refuse(context, call.socket, error);
    make_destination_concrete(call.address);
    connect_judged(context, call.socket, call.address, subject, sequence);
}

void connect_abstract(CallContext& context, Connecting& call, const std::string& name) {
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = rules::UnixObject{name, call.socket.kind.unix_type()};
    std::uint64_t sequence = 0;
    if (const int error = refusal(context, subject, judge(context, subject), &sequence))
        return refuse(context, call.socket, error);
    connect_judged(context, call.socket, call.address, subject, sequence);
}

void connect_path(CallContext& context, Connecting& call, const std::string& name) {
    const auto peer = find_unix_peer(context, name);
    if (!context.call.waiting()) return;
    if (!peer) return refuse(context, call.socket, peer.error().value());
    // Nobody listens behind what is no socket; whether it may be written decides which error that is.
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
    std::uint64_t sequence = 0;
    if (const int error = refusal(context, subject, judge(context, subject), &sequence))
        return refuse(context, call.socket, error);
    connect_judged(context, call.socket, peer->address, subject, sequence);
}

}  // namespace

void handle_connect(CallContext& context) {
    auto call = take(context);
    if (!context.call.waiting()) return;
    if (!call) return fail_descriptor_unavailable(context, Operation::connect, call.error().value(), {1, 2});
    if (call->socket.kind.internet()) return connect_internet(context, *call);
    // Of the other families only NETLINK_ROUTE can exist: its peer is the kernel.
    const auto name = call->socket.kind.domain == AF_UNIX ? unix_name(call->address) : std::nullopt;
    if (!name) return connect_unchecked(context, call->socket, call->address);
    if (name->abstract) return connect_abstract(context, *call, "@" + name->name);
    connect_path(context, *call, name->name);
}

}  // namespace callgate::calls
