// bind, listen, and the name that a socket was bound by.
//
// An attacker controls the address (copied once), the descriptor's number (the very socket is taken) and, for
// a pathname socket, the names on the way (the parent directory is pinned). What was copied is judged and
// bound, on the socket that was taken. A socket that listens without having been bound takes a port of the
// kernel's choice: that is judged as a bind to port 0. Never continued.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/test_switch.hpp"
#include "supervisor/calls/network/pinned_socket.hpp"
#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/kernel/target_memory.hpp"
#include "supervisor/calls/handlers.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

/// The kernel's own answer, or what was judged done.
void bind_to(CallContext& context, PinnedSocket& socket, const SocketAddress& address,
             std::uint64_t sequence) {
    const int result = ::bind(socket.fd.get(), address.get(), address.length);
    finish(context, socket, sequence, 0, result == 0 ? 0 : errno);
}

void bind_named(CallContext& context, PinnedSocket& socket, const SocketAddress& address,
                const rules::Object& object) {
    Subject subject;
    subject.operations = Operation::bind;
    subject.object = object;
    const rules::Verdict verdict = judge(context, subject);
    if (socket.kind.internet() && restricted(context, subject, verdict)) {
        if (const int error = refused_bind(socket, address)) return refuse(context, socket, error);
    }
    std::uint64_t sequence = 0;
    if (const int error = refusal(context, subject, verdict, &sequence))
        return refuse(context, socket, error);
    bind_to(context, socket, address, sequence);
}

/// Binds the leaf, with this thread's working directory in the pinned parent: so that no name on the way is
/// resolved a second time. errno, 0 none.
int bind_leaf(CallContext& context, const PinnedSocket& socket, const Place& place) {
    const auto caller = kernel::status(context.thread());
    if (!caller) return ESRCH;
    const auto leaf = unix_path_address(place.leaf);
    if (!leaf) return ENAMETOOLONG;
    const WithUmask with_umask(context.buffers, caller->umask);
    const UniqueFd before(::open(context.buffers.shares_umask ? "." : "/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!before || ::fchdir(place.parent.get()) != 0) return errno;
    const int error = ::bind(socket.fd.get(), leaf->get(), leaf->length) == 0 ? 0 : errno;
    if (::fchdir(before.get()) != 0) context.run.kill_tree();  // it is held; if it is lost, nothing may go on
    return error;
}

void bind_path(CallContext& context, PinnedSocket& socket, const SocketAddress& address,
               const std::string& path) {
    const auto given = unix_path(context, path);
    if (!given) return refuse(context, socket, given.error().value());
    const std::shared_lock<std::shared_mutex> names(context.run.names);
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
    std::uint64_t sequence = 0;
    if (const int error = refusal(context, subject, judge(context, subject), &sequence))
        return refuse(context, socket, error);
    const int error = bind_leaf(context, socket, *place);
    struct stat bound {};
    if (error == 0 && ::fstat(socket.fd.get(), &bound) == 0)
        context.run.bound_names.remember(bound.st_ino, address);
    finish(context, socket, sequence, 0, error);
}

Result<SocketAddress> local_address(int fd) {
    SocketAddress local;
    local.length = static_cast<socklen_t>(local.bytes.size());
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(local.bytes.data()), &local.length) != 0)
        return errno_code();
    return local;
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

void listen_on(CallContext& context, PinnedSocket& socket, std::uint64_t sequence) {
    const int result = ::listen(socket.fd.get(), context.integer(1));
    finish(context, socket, sequence, 0, result == 0 ? 0 : errno);
}

void listen_internet(CallContext& context, PinnedSocket& socket, const rules::Endpoint& bound) {
    const Subject subject = any_port(bound);
    std::uint64_t sequence = 0;
    if (bound.port == 0) {  // listening without bind takes a port of the kernel's choice
        if (const int error = refusal(context, subject, judge(context, subject), &sequence))
            return refuse(context, socket, error);
        return listen_on(context, socket, sequence);
    }
    const int error = ::listen(socket.fd.get(), context.integer(1)) == 0 ? 0 : errno;
    if (error == 0 && moved_port(socket, bound.port)) {
        // The binding was not a lasting one, or a sibling dissolved it: the kernel has chosen a port by
        // itself.
        const rules::Verdict verdict = judge(context, subject);
        if (verdict.action != rules::Action::allow) ::shutdown(socket.fd.get(), SHUT_RDWR);
        context.asking = Asking::never;
        if (const int refused = refusal(context, subject, verdict, &sequence))
            return refuse(context, socket, refused);
    }
    finish(context, socket, sequence, 0, error);
}

}  // namespace

void handle_bind(CallContext& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!socket) return fail_descriptor_unavailable(context, rules::Operation::bind, socket.error().value(), {1, 2});
    const auto address = read_address(context.thread(), context.word(1), context.integer(2));
    if (!context.call.waiting()) return;
    if (!address) return refuse(context, *socket, address.error().value());
    if (socket->kind.internet()) {
        const auto endpoint = endpoint_of(*address, socket->kind, Role::local);
        if (endpoint) return bind_named(context, *socket, *address, *endpoint);
    }
    if (socket->kind.domain == AF_UNIX) {
        const auto name = unix_name(*address);
        if (name && !name->abstract) return bind_path(context, *socket, *address, name->name);
        // Without a name the kernel picks an abstract one.
        const std::string shown = name ? "@" + name->name : "@";
        if (name || address->family() == AF_UNIX)
            return bind_named(context, *socket, *address, rules::UnixObject{shown, socket->kind.unix_type()});
    }
    bind_to(context, *socket, *address, 0);
}

void handle_getsockname(CallContext& context) {
    // Everything but a name that we know better is the kernel's to say: nothing of it is a matter of rules.
    if (context.run.bound_names.empty() || !check_enabled(context.entry.name))
        return context.call.let_continue(), void();
    auto copy = kernel::descriptor_copy(context.thread(), context.integer(0));
    struct stat socket {};
    if (!copy || ::fstat(copy->get(), &socket) != 0) return context.call.let_continue(), void();
    copy->reset();
    const auto name = S_ISSOCK(socket.st_mode) ? context.run.bound_names.find(socket.st_ino) : std::nullopt;
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

void handle_listen(CallContext& context) {
    auto socket = pin_socket(context, context.integer(0));
    if (!context.call.waiting()) return;
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
