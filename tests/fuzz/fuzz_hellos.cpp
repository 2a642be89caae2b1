// Fuzzes the beginning of a connection through the front, from both of its ends: ./dev fuzz.
//
// An input is a sequence of pieces: a byte for the end that sends, two for a length, and the bytes. Besides
// memory errors and undefined behaviour these things are checked. A client hello reads the same, whatever
// follows it, and no less of it is whole. What reaches the server begins with a hello for the allowed name.
// So does what follows, where the server asked for a second hello. The front is told once of each beginning.
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "relay/client_hello.hpp"
#include "relay/connection.hpp"

using namespace callgate;
using namespace callgate::relay;

namespace {

constexpr std::string_view allowed_name = "a.example.org";

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

void check_hello(std::string_view bytes) {
    static_cast<void>(read_first_answer(bytes));
    const ClientHello hello = read_client_hello(bytes);
    if (hello.length == 0) return;
    require(hello.length <= bytes.size(), "a hello is part of what came");
    const ClientHello alone = read_client_hello(bytes.substr(0, hello.length));
    require(alone.state == hello.state && alone.name == hello.name && alone.length == hello.length,
            "what follows a hello changes nothing");
    require(read_client_hello(bytes.substr(0, hello.length - 1)).state == ClientHello::State::incomplete,
            "no less of a hello is whole");
}

bool asks_for_allowed(const ClientHello& hello) {
    return hello.state == ClientHello::State::named && hello.name == allowed_name;
}

/// `to_server` is what the server has received, and `from_server` what it has sent.
void check_passed(std::string_view to_server, std::string_view from_server) {
    if (to_server.empty()) return;
    const ClientHello first = read_client_hello(to_server);
    require(asks_for_allowed(first), "a server receives a hello for the allowed name");
    to_server.remove_prefix(first.length);
    if (read_first_answer(from_server) == FirstAnswer::other) return;
    while (!to_server.empty() && static_cast<std::uint8_t>(to_server[0]) != Record::handshake) {
        const Record record = read_record(to_server);
        require(record.length != 0 && record.length <= to_server.size(), "whole records pass before a hello");
        to_server.remove_prefix(record.length);
    }
    require(to_server.empty() || asks_for_allowed(read_client_hello(to_server)),
            "a second hello is for the allowed name");
}

/// Two sockets, of which a test has one and the connection the other.
struct Pair {
    UniqueFd near, far;

    Pair() {
        std::array<int, 2> ends{};
        require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0,
                "there is a pair of sockets");
        near.reset(ends[0]);
        far.reset(ends[1]);
    }
    [[nodiscard]] std::string received() const {
        static std::array<char, 256 * 1024> room;
        const ssize_t got = ::recv(near.get(), room.data(), room.size(), MSG_DONTWAIT);
        return {room.data(), got < 0 ? 0 : static_cast<std::size_t>(got)};
    }
};

void check_connection(std::string_view input) {
    Pair client, server;
    Connection connection(1, {std::string(allowed_name)}, std::move(client.far), std::move(server.far));
    static std::vector<char> buffer(64 * 1024);
    std::string to_server, from_server;
    int told = 0;
    bool server_ended = false;
    auto progress = Connection::Progress::waits;
    while (input.size() >= 3 && progress != Connection::Progress::over) {
        const bool by_server = (static_cast<std::uint8_t>(input[0]) & 1U) != 0;
        const std::size_t length = static_cast<std::size_t>(static_cast<std::uint8_t>(input[1])) << 8 |
                                   static_cast<std::uint8_t>(input[2]);
        const std::string_view piece = input.substr(3, length);
        input.remove_prefix(3 + piece.size());
        const UniqueFd& end = by_server ? server.near : client.near;
        if (piece.empty()) static_cast<void>(::shutdown(end.get(), SHUT_WR));
        server_ended = server_ended || (by_server && piece.empty());
        const ssize_t sent = ::send(end.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (by_server && sent > 0) from_server += piece.substr(0, static_cast<std::size_t>(sent));
        do progress = connection.advance(buffer);
        while (progress == Connection::Progress::more);
        if (connection.take_judged() != nullptr) ++told;
        to_server += server.received();
        // A server that ends within its answer asks for no second hello.
        if (!server_ended) check_passed(to_server, from_server);
    }
    require(told <= 1, "a beginning is told once");
    require(told == 1 || progress != Connection::Progress::over, "the end of a connection is told");
    connection.tell_refused();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    check_hello(bytes);
    check_connection(bytes);
    return 0;
}
