#include "supervisor/calls/socket_address.hpp"

#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>

#include "base/test_switch.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

constexpr socklen_t short_ipv6 = 24;  // SIN6_LEN_RFC2133: without the scope id

template <class T>
T view(const SocketAddress& address) {
    T value{};
    std::memcpy(&value, address.bytes.data(), std::min<std::size_t>(sizeof value, address.length));
    return value;
}

rules::IpAddress ipv4(const std::uint8_t* bytes) {
    rules::IpAddress address;
    std::memcpy(address.bytes.data(), bytes, 4);
    return address;
}

rules::IpAddress normalised(const in6_addr& six) {
    if (IN6_IS_ADDR_V4MAPPED(&six)) return ipv4(six.s6_addr + 12);
    rules::IpAddress address;
    address.v6 = true;
    std::memcpy(address.bytes.data(), six.s6_addr, 16);
    return address;
}

/// Connecting to the unspecified address reaches this host; made so by make_destination_concrete.
void to_loopback(rules::IpAddress& address) {
    if (address != rules::IpAddress{.bytes = {}, .v6 = address.v6}) return;
    if (address.v6) {
        address.bytes[15] = 1;
    } else {
        address.bytes = {127, 0, 0, 1};
    }
}

}  // namespace

sa_family_t SocketAddress::family() const {
    sa_family_t family = AF_UNSPEC;
    if (length >= sizeof family) std::memcpy(&family, bytes.data(), sizeof family);
    return family;
}

std::uint16_t SocketAddress::port() const {
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    in_port_t port = 0;
    if (length >= offsetof(sockaddr_in, sin_port) + sizeof port)
        std::memcpy(&port, bytes.data() + offsetof(sockaddr_in, sin_port), sizeof port);
    return ntohs(port);
}

Result<SocketAddress> read_address(pid_t thread, std::uint64_t address, int length) {
    SocketAddress copy;
    if (length < 0 || static_cast<std::size_t>(length) > copy.bytes.size()) return errno_code(EINVAL);
    copy.length = static_cast<socklen_t>(length);
    const auto read = kernel::read_memory(thread, address, std::span(copy.bytes.data(), copy.length));
    if (!read) return read.error();
    return copy;
}

Result<SocketAddress> local_address(int fd) {
    SocketAddress local;
    local.length = static_cast<socklen_t>(local.bytes.size());
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(local.bytes.data()), &local.length) != 0)
        return errno_code();
    return local;
}

rules::UnixType SocketKind::unix_type() const {
    if (type == SOCK_DGRAM) return rules::UnixType::datagram;
    return type == SOCK_SEQPACKET ? rules::UnixType::seqpacket : rules::UnixType::stream;
}

Result<SocketKind> socket_kind(int fd) {
    SocketKind kind;
    for (const auto& [option, into] : {std::pair{SO_DOMAIN, &kind.domain}, std::pair{SO_TYPE, &kind.type}}) {
        socklen_t size = sizeof *into;
        if (::getsockopt(fd, SOL_SOCKET, option, into, &size) != 0) return errno_code();
    }
    return kind;
}

std::optional<rules::Endpoint> endpoint_of(const SocketAddress& address, const SocketKind& kind, Role role) {
    rules::Endpoint endpoint;
    endpoint.protocol = kind.transport();
    sa_family_t family = address.family();
    // A datagram send and a bind take AF_UNSPEC on an IPv4 socket as AF_INET (docs/dev/kernel-facts.md 37).
    const bool unspecified_is_inet =
        kind.domain == AF_INET && (kind.type == SOCK_DGRAM || role == Role::local);
    if (family == AF_UNSPEC && unspecified_is_inet) family = AF_INET;
    if (family == AF_INET && address.length >= sizeof(sockaddr_in)) {
        const auto four = view<sockaddr_in>(address);
        endpoint.address = ipv4(reinterpret_cast<const std::uint8_t*>(&four.sin_addr));
        endpoint.port = ntohs(four.sin_port);
    } else if (family == AF_INET6 && address.length >= short_ipv6) {
        const auto six = view<sockaddr_in6>(address);
        endpoint.address = normalised(six.sin6_addr);
        endpoint.port = ntohs(six.sin6_port);
    } else {
        return std::nullopt;
    }
    if (role == Role::destination) to_loopback(endpoint.address);
    return endpoint;
}

void make_destination_concrete(SocketAddress& address) {
    if (!check_enabled("concrete-destination")) return;
    const in_addr_t loopback = htonl(INADDR_LOOPBACK);
    if (address.family() == AF_INET6 && address.length >= short_ipv6) {
        auto six = view<sockaddr_in6>(address);
        in_addr mapped{};
        std::memcpy(&mapped, six.sin6_addr.s6_addr + 12, sizeof mapped);
        if (IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr)) {
            six.sin6_addr = in6addr_loopback;
        } else if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr) && mapped.s_addr == 0) {
            std::memcpy(six.sin6_addr.s6_addr + 12, &loopback, sizeof loopback);
        }
        std::memcpy(address.bytes.data(), &six, std::min<std::size_t>(sizeof six, address.length));
    } else if (address.length >=
               sizeof(sockaddr_in)) {  // AF_INET, and AF_UNSPEC where the kernel takes it so
        auto four = view<sockaddr_in>(address);
        if (four.sin_addr.s_addr == 0) four.sin_addr.s_addr = loopback;
        std::memcpy(address.bytes.data(), &four, sizeof four);
    }
}

std::optional<UnixName> unix_name(const SocketAddress& address) {
    constexpr std::size_t head = offsetof(sockaddr_un, sun_path);
    if (address.family() != AF_UNIX || address.length <= head || address.length > sizeof(sockaddr_un))
        return std::nullopt;
    const char* text = reinterpret_cast<const char*>(address.bytes.data()) + head;
    const std::size_t size = address.length - head;
    if (text[0] == '\0') return UnixName{true, std::string(text + 1, size - 1)};
    return UnixName{false, std::string(text, ::strnlen(text, size))};
}

std::optional<SocketAddress> unix_path_address(std::string_view path) {
    sockaddr_un raw{};
    if (path.size() > sizeof raw.sun_path) return std::nullopt;
    raw.sun_family = AF_UNIX;
    std::memcpy(raw.sun_path, path.data(), path.size());
    SocketAddress address;
    // A name may fill the room to its last byte; then no NUL ends it.
    const std::size_t size = std::min(path.size() + 1, sizeof raw.sun_path);
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
    std::memcpy(address.bytes.data(), &raw, address.length);
    return address;
}

}  // namespace callgate::calls
