// Reads the server's name that a TLS client asks for, and whether a server asks the client to begin again.
//
// An attacker controls every byte, and how the bytes come in pieces. Nothing is copied but the name, and no
// length is trusted. See RFC 8446 (4.1.2, 4.1.4, 5.1) and RFC 6066 (3).
//
// A hello with an encrypted one inside (RFC 9849) counts as hidden, whatever name it shows. Browsers send one
// that nobody can decrypt, too, and it cannot be told from a real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace callgate::relay {

/// The longest client hello that is read, in bytes, record headers included. Hellos with post-quantum key
/// shares have about 2,000.
inline constexpr std::size_t longest_hello = 64 * 1024;

struct ClientHello {
    enum class State : std::uint8_t {
        incomplete,  // more bytes are needed
        named,       // `name` is what the client asks for
        unnamed,     // a client hello without a server's name
        hidden,      // it holds a second hello, encrypted, whose name the server may follow
        foreign,     // not the beginning of TLS
    };
    State state = State::incomplete;
    std::string name;        // in small letters, without a final dot
    std::size_t length = 0;  // named, unnamed: the bytes of the records that hold the hello
};

/// `bytes` are the first ones of the client, as many as have come. A hello that is not complete after
/// `longest_hello` bytes is foreign. Pure.
[[nodiscard]] ClientHello read_client_hello(std::string_view bytes);

/// A record's header: its type and the length of the whole record. Pure.
struct Record {
    static constexpr std::size_t header = 5;
    static constexpr std::uint8_t change_cipher_spec = 20, alert = 21, handshake = 22, application_data = 23;
    std::uint8_t type = 0;
    std::size_t length = 0;  // header included; 0: too few bytes, or no record
};
[[nodiscard]] Record read_record(std::string_view bytes);

/// The first answer of a server to a client hello.
enum class FirstAnswer : std::uint8_t { incomplete, retry, other };

/// Tells a HelloRetryRequest, after which the client sends a second hello, from everything else. Pure.
[[nodiscard]] FirstAnswer read_first_answer(std::string_view bytes);

}  // namespace callgate::relay
