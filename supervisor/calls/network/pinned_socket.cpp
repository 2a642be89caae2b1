#include "supervisor/calls/network/pinned_socket.hpp"
#include "supervisor/calls/network/needs.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "base/test_switch.hpp"
#include "supervisor/calls/network/ports_in_use.hpp"
#include "supervisor/names/service.hpp"

namespace callgate::calls {

namespace {

constexpr std::size_t max_udp = 0xffff;
constexpr socklen_t short_ipv6 = 24;  // SIN6_LEN_RFC2133: without the scope id

/// The errno of a stream that is connected, connecting or listening: it takes no other peer.
int refused_by_state(int fd) {
    tcp_info info{};
    if (!socket_option(fd, IPPROTO_TCP, TCP_INFO, info) || info.tcpi_state == TCP_CLOSE) return 0;
    return info.tcpi_state == TCP_SYN_SENT ? EALREADY : EISCONN;
}

bool only_ipv6(int fd) {
    int only = 0;
    return socket_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, only) && only != 0;
}

/// A call that waits on such a socket is not taken up again after a signal.
bool has_time_limit(int fd) {
    timeval limit{};
    return socket_option(fd, SOL_SOCKET, SO_SNDTIMEO, limit) && (limit.tv_sec != 0 || limit.tv_usec != 0);
}

bool is_bound(int fd) {
    const auto local = local_address(fd);
    return local && local->port() != 0;
}

}  // namespace

Result<PinnedSocket> pin_socket(NetworkCall& context, int number) {
    auto copy = context.caller.cache.descriptor_copy(context.thread(), number);
    if (!copy) return copy.error();
    const auto kind = socket_kind(copy->get());
    if (!kind) return kind.error();
    return PinnedSocket{std::move(*copy), *kind};
}

Result<GivenPath> unix_path(NetworkCall& context, const std::string& name) {
    GivenPath given;
    context.buffers.path = name;
    given.text = &context.buffers.path;
    if (!context.needs.nested.empty()) given.tree = context.needs.guardian;
    if (name.starts_with('/')) return given;
    auto base = kernel::working_directory(context.thread());
    if (!base) return base.error();
    given.base = std::move(*base);
    given.directory = &context.buffers.directory;
    return given;
}

bool is_of_room(const NetworkCall& context, const PinnedSocket& socket) {
    const names::Service* const look_ups = context.network.look_ups;
    return look_ups != nullptr && socket.kind.type == SOCK_DGRAM && look_ups->holds(socket.fd.get());
}

Result<UnixPeer> find_unix_peer(NetworkCall& context, const std::string& name) {
    auto given = unix_path(context, name);
    if (!given) return given.error();
    // A bind holds it alone from the new name until the socket is known as the run's own.
    std::shared_lock<std::shared_mutex> bound(context.network.names.in_run(), std::defer_lock);
    if (context.network.own_sockets != nullptr) bound.lock();
    auto object = resolve_object(given->request(context.thread(), Follow::yes));
    if (!object) return object.error();
    auto address = unix_path_address(kernel::PinPath(object->pin.get()).text);
    return UnixPeer{std::move(*given), std::move(*object), *address};
}

int refused_connect(const PinnedSocket& socket, const SocketAddress& address) {
    const bool stream = socket.kind.type == SOCK_STREAM;
    const sa_family_t family = address.family();
    if (socket.kind.domain == AF_INET) {
        if (stream) {
            if (const int error = refused_by_state(socket.fd.get())) return error;
        }
        return family == AF_INET ? 0 : EAFNOSUPPORT;
    }
    if (socket.kind.domain != AF_INET6) return 0;
    if (stream) {
        if (const int error = refused_by_state(socket.fd.get())) return error;
        if (address.length < short_ipv6) return EINVAL;
        return family == AF_INET6 ? 0 : EAFNOSUPPORT;
    }
    return family == AF_INET && only_ipv6(socket.fd.get()) ? EAFNOSUPPORT : 0;
}

int refused_bind(const PinnedSocket& socket, const SocketAddress& address) {
    // A socket of our own, which takes no port, shows whether the address can be had.
    const UniqueFd probe(::socket(socket.kind.domain, socket.kind.type | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (!probe || ::setsockopt(probe.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) != 0)
        return 0;
    SocketAddress portless = address;
    constexpr std::size_t port_at = offsetof(sockaddr_in, sin_port);
    std::fill_n(portless.bytes.begin() + port_at, sizeof(in_port_t), std::byte{});
    if (::bind(probe.get(), portless.get(), portless.length) != 0) return errno;
    if (is_bound(socket.fd.get())) return EINVAL;
    // Programs that look for a free port then come to an end.
    return port_is_taken(socket.kind, address) ? EADDRINUSE : 0;
}

int refused_send(const PinnedSocket& socket, const SocketAddress& address, std::size_t size, int flags) {
    if (!socket.kind.internet()) return 0;
    const bool six = socket.kind.domain == AF_INET6 && address.family() != AF_INET;
    const int without_port = address.port() == 0 ? EINVAL : 0;
    if (six) return without_port != 0 ? without_port : size > max_udp ? EMSGSIZE : 0;
    if (socket.kind.domain == AF_INET6 && only_ipv6(socket.fd.get())) return ENETUNREACH;
    if (size > max_udp) return EMSGSIZE;
    if ((flags & MSG_OOB) != 0) return EOPNOTSUPP;
    if (address.family() != AF_INET && address.family() != AF_UNSPEC) return EAFNOSUPPORT;
    return without_port;
}

int bind_socket(const PinnedSocket& socket, const SocketAddress& address) {
    const auto bind = [&] { return ::bind(socket.fd.get(), address.get(), address.length) == 0 ? 0 : errno; };
    const int error = bind();
    // The run may have closed the socket that is there, and only a copy is left.
    kernel::KeptSockets* const kept = kernel::KeptSockets::in_use();
    if (error != EADDRINUSE || kept == nullptr || !check_enabled("swept-bind")) return error;
    kept->sweep();
    return bind();
}

void finish(NetworkCall& context, PinnedSocket& socket, std::uint64_t sequence, std::int64_t result,
            int error) {
    const bool interrupted =
        error == EINTR && context.blocking.interruption() != Blocking::Interruption::none;
    const bool again = interrupted && !has_time_limit(socket.fd.get());
    if (kernel::KeptSockets* const kept = kernel::KeptSockets::in_use()) kept->settle(socket.fd.get(), error);
    socket.fd.reset();
    // EINPROGRESS is a connect that goes on as it should, not one that failed.
    if (error != 0 && error != EINPROGRESS && !interrupted) note_failed_act(context, sequence, error);
    bool reached = true;
    if (error == 0) {
        reached = context.call.succeed(result);
    } else {
        reached = again ? context.call.interrupt() : context.call.fail(error);
        if (!interrupted) return;
    }
    if (!reached) note_lost_answer(context, sequence);
}

std::optional<kernel::KeptSockets::Settled> settled(NetworkCall& context) {
    kernel::KeptSockets* const kept = kernel::KeptSockets::in_use();
    return kept == nullptr ? std::nullopt : kept->settled(context.thread(), context.integer(0));
}

void answer_settled(NetworkCall& context, int error) {
    if (error != 0) return context.fail(error);
    context.call.succeed(0);
}

}  // namespace callgate::calls
