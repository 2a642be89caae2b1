// A client's connection: its handshake, and then bytes in both directions, decrypted and encrypted.
//
// Owns the client's socket and its own end of a socket pair, whose other end the front has. The client
// controls every byte before and after the handshake, and its timing. OpenSSL reads them. Nothing here looks
// at what is decrypted.
//
// At most one record (16 KiB) of each side is kept where it cannot be passed on. That side is then read no
// more until it is gone. So a client that reads slowly slows the front down, as without TLS. The front's
// limits of time and number hold for the handshake, too: it has its end of the pair from the beginning, and
// closes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/unique_fd.hpp"
#include "tls/context.hpp"

namespace callgate::tls {

/// The plaintext of one record.
inline constexpr std::size_t max_record = 16384;

class Client {
public:
    Client(UniqueFd socket, UniqueFd front, Session session);

    /// Goes on until both sides would wait, or others have their turn. Returns false if the connection is
    /// over. `buffer` has `max_record` bytes.
    [[nodiscard]] bool advance(std::span<char> buffer);
    /// The front has closed its end. What it has sent is read whole, which is what the pair holds.
    void front_closed(std::span<char> buffer);

    [[nodiscard]] bool handshaking() const { return !shaken_; }
    /// The front has closed its end, so nobody else watches the time.
    [[nodiscard]] bool leaving() const { return !front_; }
    [[nodiscard]] int socket() const { return socket_.get(); }
    [[nodiscard]] int front() const { return front_.get(); }
    /// Events of epoll_ctl(2) that it waits for.
    [[nodiscard]] std::uint32_t socket_events() const;
    [[nodiscard]] std::uint32_t front_events() const;

    std::uint32_t socket_watched = 0, front_watched = 0;

private:
    enum class Step : std::uint8_t { moved, waits, over };
    Step shake_hands();
    void answer_plain_request() const;
    Step read_client(std::span<char> buffer);
    Step send_to_front();
    Step read_front(std::span<char> buffer);
    Step send_to_client();
    Step say_goodbye();
    /// Notes the event that an operation of OpenSSL waits for, after it returned `result`.
    Step wait_for(int result, std::uint32_t& wants);

    UniqueFd socket_, front_;
    Session session_;
    std::string to_front_, to_client_;  // kept
    std::uint32_t read_wants_ = 0, write_wants_ = 0;
    bool shaken_ = false, client_ended_ = false, front_ended_ = false, goodbye_said_ = false;
};

}  // namespace callgate::tls
