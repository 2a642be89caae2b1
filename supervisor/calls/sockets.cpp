// connect, bind, listen.
//
// An attacker controls the address (copied once), the descriptor's number (the very socket is taken with
// pidfd_getfd, so a sibling's dup2 changes nothing) and, for a pathname socket, the names on the way (the
// socket's inode is pinned). What was copied is judged and connected, on the socket that was taken; the
// kernel never reads the target's memory again. A denied connect does nothing to any socket, so nobody sees
// anything of it. Never continued.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include <mutex>

#include "rules/test_switch.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/decide.hpp"
#include "supervisor/calls/socket_address.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;

struct TakenSocket {
    UniqueFd fd;
    SocketKind kind;
    SocketAddress address;
};

/// Socket and address, in the kernel's order of errors: EBADF, then EINVAL and EFAULT, then ENOTSOCK.
Result<TakenSocket> take(CallContext& context) {
    auto copy = kernel::descriptor_copy(context.thread(), context.integer(0));
    if (!copy) return copy.error();
    TakenSocket taken;
    taken.fd = std::move(*copy);
    const auto kind = socket_kind(taken.fd.get());
    if (!kind && kind.error().value() == EBADF) return kind.error();  // O_PATH
    const auto address = read_address(context.thread(), context.word(1), context.integer(2));
    if (!address) return address.error();
    taken.address = *address;
    if (!kind) return kind.error();
    taken.kind = *kind;
    return taken;
}

void answer(CallContext& context, std::uint64_t sequence, int result) {
    if (result == 0) {
        if (!context.call.succeed(0)) note_lost_answer(context, sequence);
        return;
    }
    const int error = errno;
    // EINPROGRESS is a connect that goes on as it should, not one that failed.
    if (error != EINPROGRESS) note_failed_act(context, sequence, error);
    context.fail(error);
}

/// Whether connect on this socket returns at once, or as good as: what stays on this host blocks only on a
/// full backlog, and then the receivers' watchdog notices.
bool returns_at_once(const TakenSocket& taken, const Subject& subject) {
    if (taken.kind.type == SOCK_DGRAM || taken.kind.domain == AF_UNIX) return true;
    if (const auto* endpoint = std::get_if<rules::Endpoint>(&subject.object)) {
        const auto& bytes = endpoint->address.bytes;
        if (!endpoint->address.v6 && bytes[0] == 127) return true;
    }
    return (::fcntl(taken.fd.get(), F_GETFL) & O_NONBLOCK) != 0;
}

void connect_socket(CallContext& context, const TakenSocket& taken, const SocketAddress& address,
                    const Subject& subject, std::uint64_t sequence) {
    const bool declared = !returns_at_once(taken, subject) || context.blocking.expects_blocking();
    if (declared && !context.blocking.enter()) {
        return deny_failure(context, subject, EAGAIN, "overload: too many calls are blocked");
    }
    const int result = ::connect(taken.fd.get(), address.get(), address.length);
    const int error = errno;
    if (declared) context.blocking.leave();
    if (result != 0 && error == EINTR && context.blocking.interruption() != Blocking::Interruption::none) {
        if (!context.call.interrupt()) note_lost_answer(context, sequence);
        return;
    }
    errno = error;
    answer(context, sequence, result);
}

void connect_internet(CallContext& context, const TakenSocket& taken) {
    const auto endpoint = endpoint_of(taken.address, taken.kind, Role::destination);
    // Dissolving an association (AF_UNSPEC) reaches nobody; what names no endpoint the kernel refuses by
    // itself.
    const bool dissolves = taken.address.family() == AF_UNSPEC && taken.address.length >= sizeof(sa_family_t);
    if (dissolves || !endpoint) {
        return answer(context, 0, ::connect(taken.fd.get(), taken.address.get(), taken.address.length));
    }
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = *endpoint;
    std::uint64_t sequence = 0;
    if (decide(context, subject, &sequence) == Ruling::refused) return;
    SocketAddress concrete = taken.address;
    make_destination_concrete(concrete);
    connect_socket(context, taken, concrete, subject, sequence);
}

void connect_abstract(CallContext& context, const TakenSocket& taken, const std::string& name) {
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = rules::UnixObject{name, taken.kind.unix_type()};
    std::uint64_t sequence = 0;
    if (decide(context, subject, &sequence) == Ruling::refused) return;
    connect_socket(context, taken, taken.address, subject, sequence);
}

/// The path of a unix address, resolved for the caller.
GivenPath unix_path(CallContext& context, const std::string& path, int& error) {
    GivenPath given;
    context.scratch.path = path;
    given.text = &context.scratch.path;
    error = 0;
    if (path.empty() || path.front() == '/') return given;
    auto base = kernel::working_directory(context.thread());
    if (!base) {
        error = base.error().value();
        return given;
    }
    given.base = std::move(*base);
    given.directory = &context.scratch.directory;
    return given;
}

void connect_path(CallContext& context, const TakenSocket& taken, const std::string& path) {
    int error = 0;
    const GivenPath given = unix_path(context, path, error);
    if (error != 0) return context.fail(error);
    const auto object = resolve_object(given.request(context.thread(), Follow::yes));
    if (!context.call.waiting()) return;
    if (!object) return context.fail(object.error().value());
    if (!S_ISSOCK(object->status.st_mode)) return context.fail(ECONNREFUSED);
    Subject subject;
    subject.operations = Operation::connect;
    subject.object = rules::UnixObject{object->path, taken.kind.unix_type()};
    subject.identity = identity_of(object->status);
    subject.input = input_of(given);
    if (object->nameless) return deny_failure(context, subject, ECONNREFUSED, "the socket has no name left");
    std::uint64_t sequence = 0;
    if (decide(context, subject, &sequence) == Ruling::refused) return;
    const auto pinned = unix_path_address("/proc/self/fd/" + std::to_string(object->pin.get()));
    connect_socket(context, taken, *pinned, subject, sequence);
}

void bind_path(CallContext& context, const TakenSocket& taken, const std::string& path) {
    int error = 0;
    const GivenPath given = unix_path(context, path, error);
    if (error != 0) return context.fail(error);
    const std::shared_lock<std::shared_mutex> names(context.run.names);
    const auto place = resolve_place(given.request(context.thread(), Follow::no));
    if (!context.call.waiting()) return;
    if (!place) return context.fail(place.error().value());
    struct stat there {};
    if (place->special ||
        ::fstatat(place->parent.get(), place->leaf.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
        return context.fail(EADDRINUSE);
    }
    Subject subject;
    subject.operations = Operation::bind;
    subject.object = rules::UnixObject{place->path, taken.kind.unix_type()};
    subject.input = input_of(given);
    std::uint64_t sequence = 0;
    if (decide(context, subject, &sequence) == Ruling::refused) return;
    const auto caller = kernel::status(context.thread());
    const auto leaf = unix_path_address(place->leaf);
    if (!caller || !leaf) return context.fail(caller ? ENAMETOOLONG : ESRCH);
    use_umask(context.scratch, caller->umask);
    // This thread's own working directory (receivers unshare it): the leaf alone is left to resolve.
    if (::fchdir(place->parent.get()) != 0) return answer(context, sequence, -1);
    const int result = ::bind(taken.fd.get(), leaf->get(), leaf->length);
    const int bind_error = errno;
    if (::chdir("/") != 0) context.run.kill_tree();  // "/" cannot be lost; if it is, nothing may go on
    struct stat socket {};
    if (result == 0 && ::fstat(taken.fd.get(), &socket) == 0) {
        context.run.bound_names.remember(socket.st_ino, taken.address);
    }
    errno = bind_error;
    answer(context, sequence, result);
}

/// Whether a port that the rules deny is taken anyway: programs that look for a free port must see EADDRINUSE
/// (transparency.md). Looked at with a socket of our own that never listens.
bool port_is_taken(const TakenSocket& taken, const rules::Endpoint& endpoint) {
    if (endpoint.port == 0 || taken.kind.type != SOCK_STREAM) return false;
    const UniqueFd probe(::socket(taken.kind.domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probe) return false;
    const int on = 1;
    ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return ::bind(probe.get(), taken.address.get(), taken.address.length) != 0 && errno == EADDRINUSE;
}

/// Whether a socket is bound to another port than it was.
bool moved_port(int fd, const SocketKind& kind, const rules::Endpoint& before) {
    if (!check_enabled("moved-port")) return false;
    SocketAddress local;
    local.length = static_cast<socklen_t>(local.bytes.size());
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(local.bytes.data()), &local.length) != 0) return true;
    const auto now = endpoint_of(local, kind, Role::local);
    return !now || now->port != before.port;
}

void bind_named(CallContext& context, const TakenSocket& taken, const rules::Object& object) {
    Subject subject;
    subject.operations = Operation::bind;
    subject.object = object;
    const rules::Verdict verdict = judge(context, subject);
    const auto* endpoint = std::get_if<rules::Endpoint>(&object);
    if (verdict.action != rules::Action::allow && endpoint != nullptr && port_is_taken(taken, *endpoint)) {
        return context.fail(EADDRINUSE);
    }
    std::uint64_t sequence = 0;
    if (rule_on(context, subject, verdict, &sequence) == Ruling::refused) return;
    answer(context, sequence, ::bind(taken.fd.get(), taken.address.get(), taken.address.length));
}

}  // namespace

void handle_connect(CallContext& context) {
    const auto taken = take(context);
    if (!context.call.waiting()) return;
    if (!taken) return context.fail(taken.error().value());
    if (taken->kind.internet()) return connect_internet(context, *taken);
    if (taken->kind.domain != AF_UNIX) {
        // Of the other families only NETLINK_ROUTE can exist: its peer is the kernel.
        return answer(context, 0, ::connect(taken->fd.get(), taken->address.get(), taken->address.length));
    }
    const auto name = unix_name(taken->address);
    if (!name)
        return answer(context, 0, ::connect(taken->fd.get(), taken->address.get(), taken->address.length));
    if (name->abstract) return connect_abstract(context, *taken, "@" + name->name);
    connect_path(context, *taken, name->name);
}

void handle_bind(CallContext& context) {
    const auto taken = take(context);
    if (!context.call.waiting()) return;
    if (!taken) return context.fail(taken.error().value());
    if (taken->kind.internet()) {
        const auto endpoint = endpoint_of(taken->address, taken->kind, Role::local);
        if (endpoint) return bind_named(context, *taken, *endpoint);
    }
    const auto name = taken->kind.domain == AF_UNIX ? unix_name(taken->address) : std::nullopt;
    if (name && name->abstract) {
        const std::string shown = "@" + name->name;
        return bind_named(context, *taken, rules::UnixObject{shown, taken->kind.unix_type()});
    }
    if (name) return bind_path(context, *taken, name->name);
    if (taken->kind.domain == AF_UNIX && taken->address.family() == AF_UNIX) {
        // Autobind: the kernel picks an abstract name.
        return bind_named(context, *taken, rules::UnixObject{"@", taken->kind.unix_type()});
    }
    answer(context, 0, ::bind(taken->fd.get(), taken->address.get(), taken->address.length));
}

void handle_getsockname(CallContext& context) {
    // Everything but a name that we know better is the kernel's to say: nothing of it is a matter of rules.
    if (context.run.bound_names.empty()) return context.call.let_continue(), void();
    const auto copy = kernel::descriptor_copy(context.thread(), context.integer(0));
    struct stat socket {};
    if (!copy || ::fstat(copy->get(), &socket) != 0) return context.call.let_continue(), void();
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
    const auto copy = kernel::descriptor_copy(context.thread(), context.integer(0));
    if (!context.call.waiting()) return;
    if (!copy) return context.fail(copy.error().value());
    const auto kind = socket_kind(copy->get());
    if (!kind) return context.fail(kind.error().value());
    SocketAddress local;
    local.length = static_cast<socklen_t>(local.bytes.size());
    if (::getsockname(copy->get(), reinterpret_cast<sockaddr*>(local.bytes.data()), &local.length) != 0) {
        return context.fail(errno);
    }
    const auto endpoint = kind->internet() ? endpoint_of(local, *kind, Role::local) : std::nullopt;
    std::uint64_t sequence = 0;
    if (endpoint && endpoint->port == 0) {  // listening without bind takes a port of the kernel's choice
        Subject subject;
        subject.operations = Operation::bind;
        subject.object = *endpoint;
        if (decide(context, subject, &sequence) == Ruling::refused) return;
    }
    const int result = ::listen(copy->get(), context.integer(1));
    if (result == 0 && endpoint && endpoint->port != 0 && moved_port(copy->get(), *kind, *endpoint)) {
        // The binding was not a lasting one, or a sibling dissolved it: the kernel has chosen a port by
        // itself.
        Subject subject;
        subject.operations = Operation::bind;
        subject.object = rules::Endpoint{endpoint->address, 0, endpoint->protocol};
        if (judge(context, subject).action != rules::Action::allow) ::shutdown(copy->get(), SHUT_RDWR);
        if (decide(context, subject, &sequence) == Ruling::refused) return;
    }
    answer(context, sequence, result);
}

}  // namespace callgate::calls
