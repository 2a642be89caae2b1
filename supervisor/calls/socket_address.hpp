// A socket address as the target gave it: copied once, and what it means to the rules.
//
// An attacker controls every byte and the length. The family *in the address* decides what these bytes mean
// to the kernel. So do family and type of the socket, which are read from the pinned socket. The kernel
// refuses every address that this cannot read (short, family of another socket). Such an address is handed on
// for its errno only if the kernel cannot send anything with it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "rules/model/request.hpp"

namespace callgate::calls {

struct SocketAddress {
    alignas(sockaddr_storage) std::array<std::byte, sizeof(sockaddr_storage)> bytes{};
    socklen_t length = 0;

    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(bytes.data()); }
    /// AF_UNSPEC if it is too short to hold a family.
    [[nodiscard]] sa_family_t family() const;
    /// The port of an internet address; 0 if it is too short.
    [[nodiscard]] std::uint16_t port() const;
};

/// Copies `length` bytes at `address` of the thread. EINVAL for a negative or too large length, EFAULT.
[[nodiscard]] Result<SocketAddress> read_address(pid_t thread, std::uint64_t address, int length);

/// The address that a socket of ours is bound to.
[[nodiscard]] Result<SocketAddress> local_address(int fd);

/// Reads an option of a socket of ours. False if that failed.
template <class T>
[[nodiscard]] bool socket_option(int fd, int level, int name, T& value) {
    socklen_t size = sizeof value;
    return ::getsockopt(fd, level, name, &value, &size) == 0;
}

/// Domain and type of a socket of ours. ENOTSOCK.
struct SocketKind {
    int domain = 0, type = 0;
    [[nodiscard]] bool internet() const { return domain == AF_INET || domain == AF_INET6; }
    [[nodiscard]] rules::Protocol transport() const {
        return type == SOCK_DGRAM ? rules::Protocol::udp : rules::Protocol::tcp;
    }
    [[nodiscard]] rules::UnixType unix_type() const;
};
[[nodiscard]] Result<SocketKind> socket_kind(int fd);

/// The internet endpoint that `address` names on a socket of `kind`: IPv4-mapped as IPv4. With `destination`,
/// the unspecified address is the loopback one, as the kernel connects it. Nothing if it names none.
enum class Role : bool { destination, local };
[[nodiscard]] std::optional<rules::Endpoint> endpoint_of(const SocketAddress& address, const SocketKind& kind,
                                                         Role role);

/// Replaces the unspecified address by the loopback one, so that the packet goes where it was judged to go,
/// whatever the socket is bound to. (The kernel would take the socket's own address.)
void make_destination_concrete(SocketAddress& address);

/// The name in a unix address: a path (relative or absolute), "@name", or nothing (autobind, too short).
struct UnixName {
    bool abstract = false;
    std::string name;  // path, or the abstract name without its leading NUL
};
[[nodiscard]] std::optional<UnixName> unix_name(const SocketAddress& address);

/// A unix address for a path of ours.
[[nodiscard]] std::optional<SocketAddress> unix_path_address(std::string_view path);

}  // namespace callgate::calls
