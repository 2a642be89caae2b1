// Landlock constants and structures that <linux/landlock.h> on the build machine may lack (Debian 12: ABI 2).
//
// Device ioctls (ABI 5, 1 << 15) are never handled, because rule sets have no operation for them. So
// permission to open a device is permission to use it; TIOCSTI and similar requests are refused by the
// filter. Values: include/uapi/linux/landlock.h.
#pragma once

#include <linux/landlock.h>

#include <cstddef>
#include <cstdint>

namespace callgate::agent::landlock {

inline constexpr std::uint64_t fs_truncate = 1ULL << 14;           // ABI 3
inline constexpr std::uint64_t fs_resolve_unix = 1ULL << 16;       // ABI 9
inline constexpr std::uint64_t net_bind_tcp = 1ULL << 0;           // ABI 4
inline constexpr std::uint64_t net_connect_tcp = 1ULL << 1;        // ABI 4
inline constexpr std::uint64_t net_bind_udp = 1ULL << 2;           // ABI 10
inline constexpr std::uint64_t net_connect_send_udp = 1ULL << 3;   // ABI 10
inline constexpr std::uint64_t scope_abstract_socket = 1ULL << 0;  // ABI 6
inline constexpr std::uint64_t scope_signal = 1ULL << 1;           // ABI 6
inline constexpr int rule_net_port = 2;
inline constexpr std::uint32_t no_log_of_own = 1U << 0;  // ABI 7: ..._LOG_SAME_EXEC_OFF

/// struct landlock_ruleset_attr of ABI 6. Older kernels take a prefix of it. What ABI 10 adds says which
/// denials the kernel's audit leaves out. After an exec it shows none of a domain anyway.
struct RulesetAttributes {
    std::uint64_t handled_fs = 0;
    std::uint64_t handled_net = 0;
    std::uint64_t scoped = 0;
};

/// All LANDLOCK_ACCESS_FS_* that callgate always handles and a kernel of this ABI knows. A plan that leaves
/// unix sockets to the kernel handles fs_resolve_unix too.
[[nodiscard]] constexpr std::uint64_t known_rights(int abi) {
    std::uint64_t rights = (1ULL << 13) - 1;
    if (abi >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3) rights |= fs_truncate;
    return rights;
}

/// struct landlock_net_port_attr
struct NetPort {
    std::uint64_t allowed = 0;
    std::uint64_t port = 0;
};

/// How much of RulesetAttributes a kernel of this ABI knows.
[[nodiscard]] constexpr std::size_t attributes_size(int abi) {
    if (abi >= 6) return 24;
    return abi >= 4 ? 16 : 8;
}

}  // namespace callgate::agent::landlock
