#include "supervisor/calls/network/own_servers.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <climits>
#include <tuple>

#include "base/clock.hpp"
#include "base/process/processes.hpp"
#include "base/test_switch.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

/// Connects that may be under way at once, each of which takes a place of a listener's queue.
constexpr unsigned queue_margin = 64;
/// The kernel sends an unanswered first packet again after a second.
constexpr std::int64_t max_unanswered_ns = 2'500'000'000;

std::uint64_t cookie_of(int socket) {
    std::uint64_t cookie = 0;
    return socket_option(socket, SOL_SOCKET, SO_COOKIE, cookie) ? cookie : 0;
}

bool is_unanswered(int socket) {
    tcp_info info{};
    return !socket_option(socket, IPPROTO_TCP, TCP_INFO, info) || info.tcpi_state == TCP_SYN_SENT;
}

bool is_bound_to_device(int socket) {
    std::array<char, IFNAMSIZ> name{};
    socklen_t size = name.size();
    return ::getsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, name.data(), &size) != 0 || size != 0;
}

/// Takes SO_REUSEPORT from a socket that is about to be bound. False, with errno, if that failed.
bool keep_to_itself(int socket) {
    const int off = 0;
    return !check_enabled("shared-port") ||
           ::setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &off, sizeof off) == 0;
}

/// Whether a socket that is bound to `local` takes connections to `wanted`.
bool covers(int socket, const rules::IpAddress& local, const rules::IpAddress& wanted) {
    if (local == wanted) return true;
    if (!rules::is_any(local)) return false;
    if (local.v6 == wanted.v6) return true;
    int only = 1;
    return local.v6 && socket_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, only) && only == 0;
}

/// Whether the kernel gives a connection to `wanted` to this socket, and to no other.
bool listens_at(int socket, const rules::Endpoint& wanted) {
    const auto kind = socket_kind(socket);
    const auto local = local_address(socket);
    tcp_info info{};
    if (!kind || !local || !socket_option(socket, IPPROTO_TCP, TCP_INFO, info)) return false;
    const auto bound = endpoint_of(*local, *kind, Role::local);
    if (!bound || bound->port != wanted.port) return false;
    if (!covers(socket, bound->address, wanted.address) && check_enabled("listener-address")) return false;
    if (info.tcpi_state != TCP_LISTEN && check_enabled("listener-listens")) return false;
    return !shares_port(socket) && !is_bound_to_device(socket);
}

/// A listener's `unacked` is the length of its queue, and `sacked` the most that it takes.
void make_room(int listener) {
    tcp_info info{};
    if (!socket_option(listener, IPPROTO_TCP, TCP_INFO, info)) return;
    if (info.tcpi_unacked + queue_margin >= info.tcpi_sacked) ::listen(listener, INT_MAX);
}

/// Waits until the first packet was answered. False: it was not, and the call has waited long enough.
bool wait_for_answer(NetworkCall& context, int socket) {
    if (!is_unanswered(socket)) return true;
    if (!context.blocking.enter()) return false;
    const std::int64_t end = monotonic_ns() + max_unanswered_ns;
    for (std::int64_t left = max_unanswered_ns; left > 0; left = end - monotonic_ns()) {
        pollfd answer{socket, POLLOUT, 0};
        const int ready = ::poll(&answer, 1, static_cast<int>(left / 1'000'000) + 1);
        if (ready > 0 || !is_unanswered(socket)) break;
        if (ready < 0 && context.blocking.interruption() != Blocking::Interruption::none) break;
    }
    context.blocking.leave();
    return !is_unanswered(socket);
}

/// Limits the time that connect(2) may take on the socket, while this lives: to the next tick.
class AtOnce {
public:
    explicit AtOnce(int socket)
        : socket_(socket), known_(socket_option(socket, SOL_SOCKET, SO_SNDTIMEO, before_)) {
        const timeval soon{0, 1};
        if (known_) ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    }
    ~AtOnce() {
        if (known_) ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &before_, sizeof before_);
    }
    AtOnce(const AtOnce&) = delete;
    AtOnce& operator=(const AtOnce&) = delete;

private:
    const int socket_;
    timeval before_{};
    const bool known_;
};

/// connect(2) that leaves nothing behind which the kernel would send later. Returns 0 or an errno.
int connect_at_once(NetworkCall& context, int socket, const SocketAddress& address) {
    const int off = 0;
    ::setsockopt(socket, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &off, sizeof off);
    const AtOnce at_once(socket);
    const auto connect = [&] { return ::connect(socket, address.get(), address.length) == 0 ? 0 : errno; };
    int error = connect();
    if (error != 0 && error != EINPROGRESS && error != EINTR) return error;
    if (wait_for_answer(context, socket)) {
        const bool blocks = (::fcntl(socket, F_GETFL) & O_NONBLOCK) == 0;
        return error != 0 && blocks ? connect() : error;
    }
    if (!check_enabled("unanswered-connect")) return error;
    const sockaddr nobody{AF_UNSPEC, {}};
    std::ignore = ::connect(socket, &nobody, sizeof nobody);
    return context.blocking.interruption() == Blocking::Interruption::none ? ETIMEDOUT : EINTR;
}

/// Whether a caller of party `by` may use what is of party `of`.
bool may_use(rules::Party of, rules::Party by) {
    return of == rules::Party::tools || by == rules::Party::agent || !check_enabled("server-party");
}

}  // namespace

bool by_run_server(const rules::Verdict& verdict) {
    return verdict.action == rules::Action::allow && verdict.rule != nullptr && verdict.rule->when.run_server;
}

bool shares_port(int socket) {
    int on = 1;
    return !socket_option(socket, SOL_SOCKET, SO_REUSEPORT, on) || on != 0;
}

void ListenerLock::lock_shared() {
    std::unique_lock turn(turn_, std::defer_lock);
    if (check_enabled("listener-turns")) turn.lock();
    shared_.lock_shared();
}

bool OwnServers::is_given(std::uint16_t port, rules::Party party) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(std::array{rules::Party::tools, rules::Party::agent}, [&](rules::Party of) {
        return may_use(of, party) && given_[static_cast<std::size_t>(of)].test(port);
    });
}

bool OwnServers::may_bind(const rules::Endpoint& endpoint, rules::Party party) const {
    if (endpoint.protocol != rules::Protocol::tcp || !is_loopback(endpoint.address)) return false;
    return is_given(endpoint.port, party) || !check_enabled("given-port");
}

bool OwnServers::reached_at(const rules::Endpoint& endpoint, rules::Party party) {
    if (endpoint.protocol != rules::Protocol::tcp || !is_loopback(endpoint.address)) return false;
    return is_given(endpoint.port, party) || take(endpoint, party);
}

int OwnServers::bind(const PinnedSocket& socket, const SocketAddress& address, Holder holder, bool own) {
    const int fd = socket.fd.get();
    const std::unique_lock lock(changes);
    if (own && !keep_to_itself(fd)) return errno;
    if (const int error = bind_socket(socket, address)) return error;
    const std::uint16_t port = note(fd, holder);
    const auto asked = endpoint_of(address, socket.kind, Role::local);
    if (!asked || asked->port != 0 || !is_loopback(asked->address)) return 0;
    note_given(port, holder.party);
    return 0;
}

void OwnServers::note_given(std::uint16_t port, rules::Party party) {
    if (around_ != nullptr) around_->note_given(port, party);
    const std::lock_guard lock(mutex_);
    given_[static_cast<std::size_t>(party)].set(port);
}

int OwnServers::listen(const PinnedSocket& socket, int backlog, Holder holder, bool own) {
    const std::unique_lock lock(changes);
    if (own && !keep_to_itself(socket.fd.get())) return errno;
    if (::listen(socket.fd.get(), backlog) != 0) return errno;
    note(socket.fd.get(), holder);
    return 0;
}

int OwnServers::connect(NetworkCall& context, const PinnedSocket& socket, const SocketAddress& address,
                        const rules::Endpoint& endpoint) {
    const std::shared_lock lock(changes);
    const UniqueFd listener = take(endpoint, party_of(context));
    if (!listener && check_enabled("held-listener")) return ECONNREFUSED;
    if (is_bound_to_device(socket.fd.get())) return ECONNREFUSED;
    if (listener) make_room(listener.get());
    return connect_at_once(context, socket.fd.get(), address);
}

std::vector<OwnServers::Server> OwnServers::at(std::uint16_t port, rules::Party party) const {
    const std::lock_guard lock(mutex_);
    const auto found = servers_.find(port);
    std::vector<Server> usable = found == servers_.end() ? std::vector<Server>() : found->second;
    std::erase_if(usable, [party](const Server& server) { return !may_use(server.holder.party, party); });
    return usable;
}

std::uint16_t OwnServers::note(int socket, Holder holder) {
    const auto local = local_address(socket);
    struct stat status {};
    if (!local || ::fstat(socket, &status) != 0) return 0;  // no connect is made to it
    note(local->port(), {cookie_of(socket), status.st_ino, holder});
    return local->port();
}

/// The newest comes first.
void OwnServers::note(std::uint16_t port, const Server& server) {
    if (around_ != nullptr) around_->note(port, server);
    const std::lock_guard lock(mutex_);
    std::vector<Server>& all = servers_[port];
    std::erase_if(all, [&](const Server& one) { return one.cookie == server.cookie; });
    if (all.size() >= max_at_port) all.pop_back();
    all.insert(all.begin(), server);
}

/// A copy of the server's socket that listens there, if a process of the run holds one.
UniqueFd OwnServers::take(const rules::Endpoint& endpoint, rules::Party party) {
    const std::vector<Server> servers = at(endpoint.port, party);
    UniqueFd taken;
    Server from;
    const auto wanted = [&](const Holder& holder) {
        auto copy = kernel::descriptor_copy(holder.process, holder.number);
        const std::uint64_t cookie = copy ? cookie_of(copy->get()) : 0;
        const auto server = std::ranges::find(servers, cookie, &Server::cookie);
        if (cookie == 0 || server == servers.end() || !listens_at(copy->get(), endpoint)) return false;
        taken = std::move(*copy);
        from = {cookie, server->inode, {holder.process, holder.number, server->holder.party}};
        return true;
    };
    const auto held = [&](const Server& server) {
        return kernel::descends_from(server.holder.process, guardian_) && wanted(server.holder);
    };
    if (servers.empty() || std::ranges::any_of(servers, held)) return taken;
    std::vector<std::uint64_t> inodes;
    for (const Server& server : servers) inodes.push_back(server.inode);
    for (const pid_t process : descendants(guardian_)) {
        if (taken) break;
        kernel::each_socket(process, [&](int number, ino_t inode) {
            return std::ranges::find(inodes, inode) != inodes.end() && wanted({process, number, {}});
        });
    }
    if (taken) note(endpoint.port, from);
    return taken;
}

}  // namespace callgate::calls
