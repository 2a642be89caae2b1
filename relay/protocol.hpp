// The words between the supervisor and the front, over a SOCK_SEQPACKET socket.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace callgate::relay {

/// Descriptors that the front is started with.
inline constexpr int control_descriptor = 3, listener_v4_descriptor = 4, listener_v6_descriptor = 5;

/// The word that starts the front: `callgate relay-front`.
inline constexpr const char* front_word = "relay-front";

/// The peer of an accepted connection, as accept(2) gives it.
struct Source {
    std::uint16_t family = 0;
    std::uint16_t port = 0;  // network order
    std::array<std::uint8_t, 16> address{};

    auto operator<=>(const Source&) const = default;
};

/// To the front, with the upstream socket (SCM_RIGHTS). The connection from `source` is for that socket if
/// its client asks for one of these names. The names follow, each ended by a NUL.
struct Announced {
    std::uint64_t id = 0;
    Source source;
};
inline constexpr std::size_t longest_names = 32 * 1024;

/// To the supervisor: what became of a connection's beginning. Sent once for each id.
enum class Beginning : std::uint8_t {
    accepted,      // the client asked for one of the names, in each hello that the server wanted
    other_name,    // it asked for `name`
    no_name,       // a client hello without a name
    hidden_name,   // it may ask for another name than `name`, encrypted
    not_tls,       // something else than a client hello
    server_first,  // the server spoke first: not TLS
    abandoned,     // an end came before a whole hello, or the connection never came
};
struct Judged {
    std::uint64_t id = 0;
    Beginning beginning = Beginning::abandoned;
    std::array<char, 256> name{};
};

}  // namespace callgate::relay
