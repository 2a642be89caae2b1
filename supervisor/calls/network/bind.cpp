// bind, listen, and the name that a socket was bound by.
//
// An attacker controls the address (copied once) and the descriptor's number (the very socket is copied). For
// a pathname socket it also controls the names on the way (the parent directory is pinned). The copied
// address is judged and bound, on the copied socket. A socket that listens without having been bound takes a
// port of the kernel's choice: that is judged as a bind to port 0. Never continued.
//
// Clients bind to any address and port before they connect (`dig +tcp`). Where no rule speaks of that bind,
// it succeeds and the socket stays as it was, unbound. So nothing is gained by it: listen and connect are
// judged as they are on every unbound socket.
//
// TCP binds go through OwnServers where a rule is about servers of the run's own (own_servers.hpp).
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/test_switch.hpp"
#include "rules/plan/binds_beneath.hpp"
#include "supervisor/calls/create_file.hpp"
#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/bind_by_name.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/network/own_servers.hpp"
#include "supervisor/calls/network/own_sockets.hpp"
#include "supervisor/calls/network/pinned_socket.hpp"
#include "supervisor/calls/with_umask.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

/// Binds, judged or not, and answers with the kernel's result.
void bind_to(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address,
             std::uint64_t sequence) {
    finish(context, socket, sequence, 0, bind_socket(socket, address));
}

OwnServers::Holder holder_of(NetworkCall& context) {
    const kernel::Identity& caller = context.caller.look(context.thread());
    return {caller.process, context.integer(0), party_of(context)};
}

/// The same for an internet stream. `own`: a rule about servers of the run's own allowed it.
void bind_stream(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address, bool own,
                 std::uint64_t sequence) {
    OwnServers* const servers = context.network.own_servers;
    if (servers == nullptr) return bind_to(context, socket, address, sequence);
    finish(context, socket, sequence, 0, servers->bind(socket, address, holder_of(context), own));
}

/// Whether a bind says no more than "any address, any port". The kernel itself leaves out the port until
/// connect or listen where a program asks for that (IP_BIND_ADDRESS_NO_PORT). So a default that denies it
/// waits for these. A person who allows a bind gets a real one.
bool binds_to_nothing(const PinnedSocket& socket, const rules::Object& object) {
    const auto* const endpoint = std::get_if<rules::Endpoint>(&object);
    return endpoint != nullptr && socket.kind.type == SOCK_STREAM && endpoint->port == 0 &&
           std::ranges::all_of(endpoint->address.bytes, [](std::uint8_t byte) { return byte == 0; });
}

void bind_named(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address,
                const rules::Object& object) {
    Subject subject;
    subject.operations = Operation::bind;
    subject.object = object;
    const OwnServers* const servers = context.network.own_servers;
    if (auto* const endpoint = std::get_if<rules::Endpoint>(&subject.object); endpoint && servers != nullptr)
        endpoint->of_run = servers->may_bind(*endpoint, party_of(context));
    const rules::Verdict verdict = evaluate(context, subject);
    if (socket.kind.internet() && restricted(context, subject, verdict)) {
        if (const int error = refused_bind(socket, address)) return refuse(context, socket, error);
    }
    if (verdict.rule == nullptr && binds_to_nothing(socket, object) && denies_unasked(context, verdict)) {
        if (!check_enabled("bind-to-nothing")) return bind_to(context, socket, address, 0);
        return finish(context, socket, 0, 0, 0);
    }
    const Decision decision = decide_with(context, subject, verdict);
    if (!decision.allowed()) return refuse(context, socket, decision.error);
    if (socket.kind.internet() && socket.kind.type == SOCK_STREAM)
        return bind_stream(context, socket, address, by_run_server(verdict), decision.sequence);
    bind_to(context, socket, address, decision.sequence);
}

/// Binds the leaf in the pinned parent, which is this thread's working directory: no name on the way is
/// resolved a second time. Peers see the leaf alone. Returns 0 or an errno.
int bind_leaf(NetworkCall& context, const PinnedSocket& socket, const SocketAddress& address,
              const Place& place) {
    const auto leaf = unix_path_address(place.leaf);
    if (!leaf) return ENAMETOOLONG;
    if (::fchdir(place.parent.get()) != 0) return errno;
    if (const int error = bind_socket(socket, *leaf)) return error;
    struct stat bound {};
    if (unix_name(address)->name != place.leaf && ::fstat(socket.fd.get(), &bound) == 0)
        context.network.bound_names.remember(bound.st_ino, address);
    return 0;
}

/// Whether a link of procfs is on the way to the place. It would lead through callgate's own descriptors, and
/// one of these may happen to be a directory beneath the place's.
bool passes_magic_link(const GivenPath& given) {
    const std::string head = given.text->substr(0, given.text->rfind('/') + 1);
    const open_how way{O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS};
    const int base = given.base ? given.base.get() : AT_FDCWD;
    return !UniqueFd(static_cast<int>(::syscall(SYS_openat2, base, head.c_str(), &way, sizeof way)));
}

/// Whether the text of an address may be resolved once more (bind_by_name.hpp). The verdict is one of the
/// rules alone: an answer counts for one place.
bool may_bind_by_name(NetworkCall& context, const PinnedSocket& socket, const GivenPath& given,
                      const Place& place) {
    if (*given.text == place.leaf) return false;  // there is nothing on the way
    if (passes_magic_link(given)) return false;
    if (!check_enabled("bound-beneath")) return true;
    const std::string_view path = place.path;
    const std::size_t slash = path.rfind('/');
    return rules::binds_everywhere_beneath(context.needs.enforced.rules,
                                           path.substr(0, std::max<std::size_t>(slash, 1)),
                                           path.substr(slash + 1), socket.kind.unix_type());
}

/// Binds at the judged place: by the name that the program gave where that is sound, else by the leaf.
/// Returns 0 or an errno.
int bind_at(NetworkCall& context, const PinnedSocket& socket, const SocketAddress& address,
            const GivenPath& given, const Place& place) {
    const auto caller = kernel::status(context.thread());
    if (!caller) return ESRCH;
    const WithUmask with_umask(context.buffers, caller->umask);
    const UniqueFd before(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!before) return errno;
    BoundByName bound = BoundByName::not_bound;
    if (may_bind_by_name(context, socket, given, place) && (!given.base || ::fchdir(given.base.get()) == 0))
        bound = bind_by_name(socket.fd.get(), address, place);
    const int error = bound == BoundByName::there       ? 0
                      : bound == BoundByName::elsewhere ? EACCES
                                                        : bind_leaf(context, socket, address, place);
    if (::fchdir(before.get()) != 0)
        context.needs.kill_tree();  // it is held; if it is lost, nothing may go on
    return error;
}

/// Whether a rule denies making a file at the socket's place. A socket is a new name as well, and Landlock
/// takes it for one. So a rule about sockets opens no such place.
bool denies_name(NetworkCall& context, const Basis& basis, const Subject& name) {
    const rules::Verdict verdict = evaluate(context, basis, name);
    return verdict.rule != nullptr && verdict.action >= rules::Action::deny && check_enabled("bound-name");
}

void bind_path(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address,
               const std::string& path) {
    const auto given = unix_path(context, path);
    if (!given) return refuse(context, socket, given.error().value());
    // Alone: the run gives the name to no other socket until it is known which one was bound.
    const std::unique_lock<NameLock> alone(context.network.names);
    const auto place = resolve_place(given->request(context.thread(), Follow::no));
    if (!context.call.waiting()) return;
    if (!place) return refuse(context, socket, place.error().value());
    struct stat there {};
    if (place->special ||
        ::fstatat(place->parent.get(), place->leaf.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
        return refuse(context, socket, EADDRINUSE);
    }
    Subject subject;
    subject.operations = Operation::bind;
    subject.object = rules::UnixObject{place->path, socket.kind.unix_type()};
    subject.input = input_of(*given);
    Subject name = subject;
    name.operations = create_file(place->path);
    name.object = rules::FileObject{place->path};
    const Observation* const observation = context.needs.observation;
    const bool denied = denies_name(context, context.needs.enforced, name) ||
                        (observation != nullptr && denies_name(context, observation->basis(), name));
    const Decision decision = decide(context, denied ? name : subject);
    if (!decision.allowed()) return refuse(context, socket, decision.error);
    const int error = bind_at(context, socket, address, *given, *place);
    OwnSockets* const own = context.network.own_sockets;
    if (error == 0 && own != nullptr && own->concerns(place->path)) own->add(*place);
    finish(context, socket, decision.sequence, 0, error);
}

/// Whether a socket is bound to another port than it was.
bool moved_port(const PinnedSocket& socket, std::uint16_t before) {
    if (!check_enabled("moved-port")) return false;
    const auto local = local_address(socket.fd.get());
    if (!local) return true;
    const auto now = endpoint_of(*local, socket.kind, Role::local);
    return !now || now->port != before;
}

/// A bind to a port of the kernel's choice.
Subject any_port(const rules::Endpoint& endpoint) {
    Subject subject;
    subject.operations = Operation::bind;
    subject.object = rules::Endpoint{endpoint.address, 0, endpoint.protocol};
    return subject;
}

void listen_on(NetworkCall& context, PinnedSocket& socket, std::uint64_t sequence) {
    const int result = ::listen(socket.fd.get(), context.integer(1));
    finish(context, socket, sequence, 0, result == 0 ? 0 : errno);
}

void listen_internet(NetworkCall& context, PinnedSocket& socket, const rules::Endpoint& bound) {
    const Subject subject = any_port(bound);
    if (bound.port == 0) {  // listening without bind takes a port of the kernel's choice
        const rules::Verdict verdict = evaluate(context, subject);
        const Decision decision = decide_with(context, subject, verdict);
        if (!decision.allowed()) return refuse(context, socket, decision.error);
        OwnServers* const servers = context.network.own_servers;
        if (servers == nullptr) return listen_on(context, socket, decision.sequence);
        const int error =
            servers->listen(socket, context.integer(1), holder_of(context), by_run_server(verdict));
        return finish(context, socket, decision.sequence, 0, error);
    }
    std::uint64_t sequence = 0;
    const int error = ::listen(socket.fd.get(), context.integer(1)) == 0 ? 0 : errno;
    if (error == 0 && moved_port(socket, bound.port)) {
        // The binding did not last, or a sibling dissolved it: the kernel has chosen a port by itself.
        const rules::Verdict verdict = evaluate(context, subject);
        if (verdict.action != rules::Action::allow ||
            (by_run_server(verdict) && shares_port(socket.fd.get())))
            ::shutdown(socket.fd.get(), SHUT_RDWR);
        context.asking = Asking::never;
        const Decision decision = decide_with(context, subject, verdict);
        if (!decision.allowed()) return refuse(context, socket, decision.error);
        if (context.network.own_servers != nullptr)
            context.network.own_servers->note(socket.fd.get(), holder_of(context));
        sequence = decision.sequence;
    }
    finish(context, socket, sequence, 0, error);
}

}  // namespace

void handle_bind(NetworkCall& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!socket && settled(context)) return context.fail(EINVAL);
    if (!socket)
        return fail_descriptor_unavailable(context, rules::Operation::bind, socket.error().value(), {1, 2});
    const auto address = read_address(context.thread(), context.word(1), context.integer(2));
    if (!context.call.waiting()) return;
    if (!address) return refuse(context, *socket, address.error().value());
    if (socket->kind.internet()) {
        if (is_of_room(context, *socket)) return bind_to(context, *socket, *address, 0);
        const auto endpoint = endpoint_of(*address, socket->kind, Role::local);
        if (endpoint) return bind_named(context, *socket, *address, *endpoint);
    }
    if (socket->kind.domain == AF_UNIX) {
        const auto name = unix_name(*address);
        if (name && !name->abstract) return bind_path(context, *socket, *address, name->name);
        // The kernel picks an abstract name if there is none.
        const std::string shown = name ? "@" + name->name : "@";
        if (name || address->family() == AF_UNIX)
            return bind_named(context, *socket, *address, rules::UnixObject{shown, socket->kind.unix_type()});
    }
    bind_to(context, *socket, *address, 0);
}

void handle_getsockname(NetworkCall& context) {
    // The kernel answers everything but a name that callgate knows better; no rule is about it.
    if (context.network.bound_names.empty() || !check_enabled(context.entry.name))
        return context.call.let_continue(), void();
    const auto inode = kernel::socket_inode(context.thread(), context.integer(0));
    const auto name = inode ? context.network.bound_names.find(*inode) : std::nullopt;
    if (!name) return context.call.let_continue(), void();
    const auto room = kernel::read_object<int>(context.thread(), context.word(2));
    if (!context.call.waiting()) return;
    if (!room) return context.fail(EFAULT);
    if (*room < 0) return context.fail(EINVAL);
    const auto size = static_cast<int>(name->length);
    const auto shown = std::min(static_cast<std::size_t>(*room), static_cast<std::size_t>(name->length));
    auto written =
        kernel::write_memory(context.thread(), context.word(1), std::span(name->bytes.data(), shown));
    if (written) {
        written = kernel::write_memory(context.thread(), context.word(2),
                                       std::as_bytes(std::span<const int, 1>(&size, 1)));
    }
    if (!written) return context.fail(EFAULT);
    context.call.succeed(0);
}

void handle_listen(NetworkCall& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!context.call.waiting()) return;
    if (const auto state = socket ? std::nullopt : settled(context))
        return answer_settled(context, state->listen);
    if (!socket) return fail_descriptor_unavailable(context, rules::Operation::bind, socket.error().value());
    if (socket->kind.internet() && socket->kind.type == SOCK_STREAM) {
        const auto local = local_address(socket->fd.get());
        if (!local) return refuse(context, *socket, local.error().value());
        if (const auto endpoint = endpoint_of(*local, socket->kind, Role::local))
            return listen_internet(context, *socket, *endpoint);
    }
    listen_on(context, *socket, 0);
}

}  // namespace callgate::calls
