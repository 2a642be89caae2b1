// A socket address as the target gave it: copied once, and what it means to the rules.
//
// An attacker controls every byte and the length. What these bytes mean to the kernel is decided by the
// family *in the address* and the socket's own family and type, which are read from the pinned socket. An
// address that this cannot read is one that the kernel refuses too (short, family of another socket): it is
// handed on for its errno only where the kernel cannot send anything with it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rules/model/request.hpp"
#include "base/result.hpp"

namespace callgate::calls {

struct SocketAddress {
    alignas(sockaddr_storage) std::array<std::byte, sizeof(sockaddr_storage)> bytes{};
    socklen_t length = 0;

    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(bytes.data()); }
    /// AF_UNSPEC where it is too short to hold a family.
    [[nodiscard]] sa_family_t family() const;
    /// The port where an internet address has it; 0 where it is too short.
    [[nodiscard]] std::uint16_t port() const;
};

/// Copies `length` bytes at `address` of the thread. EINVAL for a negative or too large length, EFAULT.
[[nodiscard]] Result<SocketAddress> read_address(pid_t thread, std::uint64_t address, int length);

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
/// the unspecified address is the loopback one, as the kernel connects it. Nothing where it names none.
enum class Role : bool { destination, local };
[[nodiscard]] std::optional<rules::Endpoint> endpoint_of(const SocketAddress& address, const SocketKind& kind,
                                                         Role role);

/// Writes the loopback address where the unspecified one stands: so that what was judged is where it goes,
/// whatever the socket is bound to (the kernel would take its own address).
void make_destination_concrete(SocketAddress& address);

/// What a unix address names: a path (relative or absolute), "@name", or nothing (autobind, too short).
struct UnixName {
    bool abstract = false;
    std::string name;  // path, or the abstract name without its leading NUL
};
[[nodiscard]] std::optional<UnixName> unix_name(const SocketAddress& address);

/// A unix address for a path of ours.
[[nodiscard]] std::optional<SocketAddress> unix_path_address(std::string_view path);

}  // namespace callgate::calls
