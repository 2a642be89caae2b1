#include "supervisor/front/tls_front.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/result.hpp"

namespace callgate::front {

namespace {

constexpr int backlog = 4096;

/// A listening socket on a free port of loopback, above the standard descriptors. Invalid if there is no such
/// family.
UniqueFd listen_on_loopback(int family, std::uint16_t& port) {
    sockaddr_storage address{};
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET)
        reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!listener || ::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), backlog) != 0 ||
        ::getsockname(listener.get(), generic, &size) != 0)
        return {};
    port = family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                             : reinterpret_cast<sockaddr_in6&>(address).sin6_port;
    return UniqueFd(::fcntl(listener.get(), F_DUPFD_CLOEXEC, 10));
}

/// The address by which the front will know the connection of this socket.
relay::Source source_of(int socket) {
    relay::Source source;
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return source;
    if (address.ss_family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
        source.family = AF_INET;
        source.port = v4.sin_port;
        std::memcpy(source.address.data(), &v4.sin_addr, sizeof v4.sin_addr);
        return source;
    }
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    source.family = mapped ? AF_INET : AF_INET6;
    source.port = v6.sin6_port;
    std::memcpy(source.address.data(), v6.sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    return source;
}

int option(int socket, int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    return ::getsockopt(socket, level, name, &value, &size) == 0 ? value : 0;
}

bool unconnected(int socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

}  // namespace

Expected<std::unique_ptr<TlsFront>> TlsFront::start(const SignalState& signals) {
    std::unique_ptr<TlsFront> made(new TlsFront);
    const auto failed = [](const boost::system::error_code& error) {
        return Problem{"cannot start the process that checks the names of TLS connections: " +
                       error.message()};
    };
    const UniqueFd v4 = listen_on_loopback(AF_INET, made->port_v4_),
                   v6 = listen_on_loopback(AF_INET6, made->port_v6_);
    std::array<int, 2> ends{};
    if (!v4 || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return failed(errno_code());
    made->control_.reset(ends[0]);
    const UniqueFd given(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
    ::close(ends[1]);
    std::vector<std::pair<int, int>> numbers{{given.get(), relay::control_descriptor},
                                             {v4.get(), relay::listener_v4_descriptor}};
    if (v6) numbers.emplace_back(v6.get(), relay::listener_v6_descriptor);
    auto child = spawn(own_program, {"callgate", relay::front_word}, {}, numbers, signals);
    if (!child) return failed(child.error());
    made->child_ = std::move(*child);
    return made;
}

int TlsFront::connect(int socket, const sockaddr* address, socklen_t length,
                      const std::vector<std::string>& names, Begun begun) {
    // A socket that is connected, or connects, gets the kernel's own answer.
    if (!unconnected(socket)) return ::connect(socket, address, length) == 0 ? 0 : errno;
    const bool blocks = (::fcntl(socket, F_GETFL) & O_NONBLOCK) == 0;
    const auto upstream = dial(address, length, blocks);
    if (!upstream) return upstream.error().value();
    const int entered = enter(socket);
    if (entered != 0 && entered != EINPROGRESS) return entered;
    const std::uint64_t id = next_id_++;
    {
        const std::scoped_lock locked(lock_);
        begun_.emplace(id, std::move(begun));
    }
    if (announce({id, source_of(socket)}, names, *upstream)) return entered;
    const std::scoped_lock locked(lock_);
    begun_.erase(id);
    return ECONNREFUSED;  // the front has ended: nobody reads what the socket sends
}

Result<UniqueFd> TlsFront::dial(const sockaddr* address, socklen_t length, bool waits) const {
    UniqueFd upstream(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!upstream) return errno_code();
    if (::connect(upstream.get(), address, length) == 0) return upstream;
    if (errno != EINPROGRESS) return errno_code();
    pollfd wanted{upstream.get(), POLLOUT, 0};
    const int ready = ::poll(&wanted, 1, waits ? -1 : static_cast<int>(longest_wait.count()));
    if (ready < 0) return errno_code();
    if (const int error = ready == 0 ? 0 : option(upstream.get(), SOL_SOCKET, SO_ERROR); error != 0)
        return errno_code(error);
    return upstream;
}

/// Connects the caller's socket to the front, by its own family.
int TlsFront::enter(int socket) const {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = port_v4_;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (option(socket, SOL_SOCKET, SO_DOMAIN) == AF_INET)
        return ::connect(socket, reinterpret_cast<const sockaddr*>(&v4), sizeof v4) == 0 ? 0 : errno;
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = port_v6_;
    v6.sin6_addr = in6addr_loopback;
    if (port_v6_ == 0) {
        v6.sin6_port = port_v4_;
        v6.sin6_addr.s6_addr[0] = v6.sin6_addr.s6_addr[15] = 0;
        v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
        std::memcpy(v6.sin6_addr.s6_addr + 12, &v4.sin_addr, sizeof v4.sin_addr);
    }
    return ::connect(socket, reinterpret_cast<const sockaddr*>(&v6), sizeof v6) == 0 ? 0 : errno;
}

bool TlsFront::announce(relay::Announced announced, const std::vector<std::string>& names,
                        const UniqueFd& upstream) {
    std::string text(reinterpret_cast<const char*>(&announced), sizeof announced);
    for (const std::string& name : names)
        if (text.size() + name.size() < sizeof announced + relay::longest_names) text += name + '\0';
    iovec part{text.data(), text.size()};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* const note = CMSG_FIRSTHDR(&message);
    note->cmsg_level = SOL_SOCKET;
    note->cmsg_type = SCM_RIGHTS;
    note->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = upstream.get();
    std::memcpy(CMSG_DATA(note), &descriptor, sizeof descriptor);
    ssize_t sent = 0;
    do sent = ::sendmsg(control_.get(), &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(text.size());
}

bool TlsFront::take_judged() {
    for (;;) {
        relay::Judged judged;
        const ssize_t got = ::recv(control_.get(), &judged, sizeof judged, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return true;
        if (got <= 0) return false;
        if (static_cast<std::size_t>(got) != sizeof judged) continue;
        judged.name.back() = '\0';
        Begun begun;
        {
            const std::scoped_lock locked(lock_);
            const auto found = begun_.find(judged.id);
            if (found == begun_.end()) continue;
            begun = std::move(found->second);
            begun_.erase(found);
        }
        if (begun) begun(judged);
    }
}

}  // namespace callgate::front
