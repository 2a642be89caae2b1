// connect.
//
// An attacker controls the address (copied once), the descriptor's number and the names on the way to a
// pathname socket (pinned_socket.hpp). The copied address is judged and connected, on the copied socket; the
// kernel never reads the target's memory again. A denied connect does nothing to any socket, so its peer sees
// nothing of it. Never continued.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/test_switch.hpp"
#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/fronted.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/network/own_servers.hpp"
#include "supervisor/calls/network/pinned_socket.hpp"
#include "supervisor/calls/network/reserved_name.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/names/service.hpp"

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

/// Dissolves an association (AF_UNSPEC), which may be that of a listener.
void dissolve(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address) {
    std::unique_lock<ListenerLock> changes;
    if (context.network.own_servers != nullptr && check_enabled("dissolved-listener"))
        changes = std::unique_lock(context.network.own_servers->changes);
    const int error = ::connect(socket.fd.get(), address.get(), address.length) == 0 ? 0 : errno;
    if (changes) changes.unlock();
    finish(context, socket, 0, 0, error);
}

/// Whether the call would dissolve an association.
bool dissolves(NetworkCall& context) {
    const auto address = read_address(context.thread(), context.word(1), context.integer(2));
    return address && address->family() == AF_UNSPEC;
}

/// Connects without a decision, where no rule applies: the answer is the kernel's own.
void connect_unchecked(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address) {
    const int result = ::connect(socket.fd.get(), address.get(), address.length);
    finish(context, socket, 0, 0, result == 0 ? 0 : errno);
}

/// The kernel's answer to a further connect on a stream that is connected, or whose connect has just ended.
/// It does not look at the address then, and reaches nobody. Returns nothing for another socket. That one is
/// left as it is, also if it becomes free meanwhile: the address is too short to connect to.
std::optional<int> answer_to_further(const PinnedSocket& socket) {
    tcp_info info{};
    if (!socket_option(socket.fd.get(), IPPROTO_TCP, TCP_INFO, info)) return std::nullopt;
    if (info.tcpi_state == TCP_SYN_SENT) return std::nullopt;  // it would wait
    const sockaddr nowhere{AF_INET, {}};
    const int error = ::connect(socket.fd.get(), &nowhere, sizeof nowhere.sa_family) == 0 ? 0 : errno;
    return error == EINVAL ? std::nullopt : std::optional(error);
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

constexpr std::uint16_t name_service = 53;

/// The address of the run's name server, of the family that was asked for. Returns nothing if there is no
/// loopback of that family.
std::optional<SocketAddress> own_name_server(names::Stub& names, const SocketAddress& asked) {
    SocketAddress server;
    if (asked.family() == AF_INET) {
        const std::uint16_t port = names.port(AF_INET);
        if (port == 0) return std::nullopt;
        sockaddr_in four{};
        four.sin_family = AF_INET;
        four.sin_port = htons(port);
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        server.length = sizeof four;
        std::memcpy(server.bytes.data(), &four, sizeof four);
        return server;
    }
    sockaddr_in6 six{};
    std::memcpy(&six, asked.bytes.data(), std::min<std::size_t>(sizeof six, asked.length));
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
    const std::uint16_t port = names.port(mapped ? AF_INET : AF_INET6);
    if (port == 0) return std::nullopt;
    six = {};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    six.sin6_addr = in6addr_loopback;
    if (mapped) {
        const in_addr loopback{htonl(INADDR_LOOPBACK)};
        six.sin6_addr = {};
        six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
        std::memcpy(six.sin6_addr.s6_addr + 12, &loopback, sizeof loopback);
    }
    server.length = sizeof six;
    std::memcpy(server.bytes.data(), &six, sizeof six);
    return server;
}

/// Whether a connect to port 53 goes to the run's own name server: unless a rule about addresses allows it.
bool is_look_up(const NetworkCall& context, const rules::Endpoint& endpoint, const rules::Verdict& verdict) {
    if (context.network.look_ups == nullptr || endpoint.port != name_service) return false;
    if (!check_enabled("own-name-server")) return false;
    return verdict.action != rules::Action::allow || verdict.rule == nullptr ||
           verdict.rule->when.address.empty();
}

/// Connects a TCP socket to the run's name server, whatever server it was to be. What is looked up there is
/// decided name by name, so there is nothing to decide or record here. On loopback it never blocks for long.
void connect_name_server(NetworkCall& context, Connecting& call) {
    if (const int error = refused_connect(call.socket, call.address))
        return refuse(context, call.socket, error);
    const names::Asker asker = asker_of(context);
    const auto names = context.network.look_ups->server_of(asker);
    const auto server = own_name_server(*names, call.address);
    if (!server) return refuse(context, call.socket, ECONNREFUSED);
    const int result = ::connect(call.socket.fd.get(), server->get(), server->length);
    const int error = result == 0 ? 0 : errno;
    if (error == 0 || error == EINPROGRESS) {
        if (const auto local = local_address(call.socket.fd.get()))
            names->expect(reinterpret_cast<const sockaddr_storage&>(local->bytes), asker);
    }
    finish(context, call.socket, 0, 0, error);
}

/// The sentence for a denied address without a name, with what the connect probably was.
std::string why_nameless(const rules::Endpoint& endpoint) {
    constexpr std::uint16_t over_tls = 853, over_https = 443;
    if (!endpoint.names.empty() || names::special_use(endpoint.address)) return {};
    std::string text = rules::text(endpoint.address) + " belongs to no name that was looked up in this run";
    if (endpoint.port == over_tls)
        text += "; probably DNS over TLS, by which a program looks names up itself";
    if (endpoint.port == over_https) text += "; perhaps DNS over HTTPS, or an address from elsewhere";
    return text;
}

/// The sentence for a denied address that no look-up bound.
std::string why_unbound(const NetworkCall& context, const rules::Endpoint& endpoint) {
    if (context.network.look_ups == nullptr) return {};
    const std::string name = context.network.look_ups->refused_name(endpoint.address);
    if (const auto former = context.network.look_ups->former_names(endpoint.address); former && name.empty())
        return "looked up again, " + former->front() + " does not lead to " + rules::text(endpoint.address) +
               " now";
    if (name.empty()) return why_nameless(endpoint);
    std::string text = "an address of this machine";
    if (names::special_use(endpoint.address)) text = "an address for special use";
    return text + ", which " + name + " was answered with: a rule must name both host and address";
}

/// An answer to the question about the look-up is one to the connect, too: on any port, unless the rule that
/// asks singles ports out.
std::optional<Questioned> answered_at_look_up(NetworkCall& context, const rules::Endpoint& endpoint,
                                              const rules::Verdict& verdict) {
    if (verdict.action != rules::Action::ask || endpoint.names.empty() || context.network.look_ups == nullptr)
        return std::nullopt;
    if (verdict.rule != nullptr && !verdict.rule->when.port.empty()) return std::nullopt;
    const std::vector<std::string> names(endpoint.names.begin(), endpoint.names.end());
    const auto answer = context.network.look_ups->answered(asker_of(context), names);
    if (!answer) return std::nullopt;
    Questioned result{.parked = false, .verdict = verdict, .reason = {}};
    result.verdict.action = answer->action;
    result.verdict.decided_by = answer->by;
    context.question = answer->question;
    return result;
}

/// Looks up again the names of an address that was dropped, if there are some. Returns false if the call has
/// been answered.
bool look_up_again(NetworkCall& context, Connecting& call, const rules::Endpoint& endpoint,
                   names::Bindings::Names& names) {
    names::Service& look_ups = *context.network.look_ups;
    const auto former = names ? nullptr : look_ups.former_names(endpoint.address);
    if (!former) return true;
    if (!context.blocking.enter()) return true;  // too many wait: the address has no name now
    const auto wanted = [&] { return context.blocking.interruption() == Blocking::Interruption::none; };
    look_ups.look_up_again(*former, endpoint.address, asker_of(context), wanted);
    context.blocking.leave();
    if (!wanted()) return finish(context, call.socket, 0, 0, EINTR), false;
    names = look_ups.names_of(endpoint.address);
    return true;
}

void connect_internet(NetworkCall& context, Connecting& call) {
    auto endpoint = endpoint_of(call.address, call.socket.kind, Role::destination);
    // Dissolving an association (AF_UNSPEC) reaches nobody. The kernel itself refuses an address that names
    // no endpoint.
    if (call.address.family() == AF_UNSPEC && call.address.length >= sizeof(sa_family_t))
        return dissolve(context, call.socket, call.address);
    if (!endpoint) return connect_unchecked(context, call.socket, call.address);
    names::Service* const look_ups = context.network.look_ups;
    const bool stream = call.socket.kind.type == SOCK_STREAM;
    if (const auto answer = stream ? answer_to_further(call.socket) : std::nullopt)
        return finish(context, call.socket, 0, 0, *answer);
    if (is_of_room(context, call.socket)) return connect_unchecked(context, call.socket, call.address);
    auto names = look_ups == nullptr ? nullptr : look_ups->names_of(endpoint->address);
    if (look_ups != nullptr && !look_up_again(context, call, *endpoint, names)) return;
    if (names) endpoint->names = *names;
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = *endpoint;
    rules::Verdict verdict = evaluate(context, subject);
    OwnServers* const servers = stream ? context.network.own_servers : nullptr;
    if (servers != nullptr && restricted(context, subject, verdict) &&
        servers->reached_at(*endpoint, party_of(context))) {
        endpoint->of_run = true;
        subject.object = *endpoint;
        verdict = evaluate(context, subject);
    }
    if (stream && is_look_up(context, *endpoint, verdict)) return connect_name_server(context, call);
    if (restricted(context, subject, verdict)) {
        if (const int error = refused_connect(call.socket, call.address))
            return refuse(context, call.socket, error);
    }
    const std::string why = verdict.action == rules::Action::deny && verdict.rule == nullptr
                                ? why_unbound(context, *endpoint)
                                : "";
    const auto answered = answered_at_look_up(context, *endpoint, verdict);
    const Decision decision = answered       ? decide_with(context, subject, *answered)
                              : !why.empty() ? decide_with(context, subject, Questioned{false, verdict, why})
                                             : decide_with(context, subject, verdict);
    if (!decision.allowed()) return refuse(context, call.socket, decision.error);
    make_destination_concrete(call.address);
    if (servers != nullptr && by_run_server(verdict)) {
        const int error = servers->connect(context, call.socket, call.address, *endpoint);
        return finish(context, call.socket, decision.sequence, 0, error);
    }
    if (stream && names && goes_through_front(context, subject))
        return connect_through_front(context, call.socket, call.address, subject, verdict, names,
                                     decision.sequence);
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
    if (const auto state = call || dissolves(context) ? std::nullopt : settled(context))
        return answer_settled(context, state->connect);
    if (!call) return fail_descriptor_unavailable(context, Operation::connect, call.error().value(), {1, 2});
    if (call->socket.kind.internet()) return connect_internet(context, *call);
    // The only other family that can exist is NETLINK_ROUTE: its peer is the kernel.
    const auto name = call->socket.kind.domain == AF_UNIX ? unix_name(call->address) : std::nullopt;
    if (!name) return connect_unchecked(context, call->socket, call->address);
    if (name->abstract && is_reserved(name->name) && context.network.reserved != nullptr) {
        call->socket.fd.reset();
        return context.network.reserved->connect(context, context.integer(0), name->name);
    }
    if (name->abstract) return connect_abstract(context, *call, "@" + name->name);
    connect_path(context, *call, name->name);
}

}  // namespace callgate::calls
