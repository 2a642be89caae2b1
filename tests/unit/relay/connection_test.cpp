#include "relay/connection.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>

#include "tests/unit/relay/tls_bytes.hpp"

namespace callgate::relay {

namespace {

const std::string access_denied("\x15\x03\x03\x00\x02\x02\x31", 7);

/// Both ends of a connection over loopback.
struct Pair {
    UniqueFd near, far;

    Pair() {
        const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        near.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), 1) != 0 ||
            ::getsockname(listener.get(), generic, &size) != 0 || ::connect(near.get(), generic, size) != 0)
            throw std::runtime_error("no connection over loopback");
        far.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
};

/// A connection of the front's, with a client before it and a server behind it.
struct Bench {
    Pair client, server;
    std::vector<char> buffer = std::vector<char>(64 * 1024);
    Connection connection;

    Bench()
        : connection(7, {"a.example.org", "b.example.org"}, std::move(client.far), std::move(server.far)) {}

    Connection::Progress advance() { return connection.advance(buffer); }
    /// The alert that comes to a refused client, which is told now.
    std::string alert() {
        connection.tell_refused();
        return hear(client.near, 7);
    }
    void say(const UniqueFd& end, std::string_view bytes) {
        REQUIRE(::send(end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }
    /// Lets the connection work until `end` has received `size` bytes, its last byte, or a reset.
    std::string hear(const UniqueFd& end, std::size_t size) {
        std::string heard;
        for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
             heard.size() < size && std::chrono::steady_clock::now() < until;) {
            static_cast<void>(advance());
            char bytes[4096];
            const ssize_t got =
                ::recv(end.get(), bytes, std::min(sizeof bytes, size - heard.size()), MSG_DONTWAIT);
            if (got == 0) return heard;
            if (got > 0) heard.append(bytes, static_cast<std::size_t>(got));
        }
        return heard;
    }
    /// Lets the connection work until it says what became of its beginning.
    Judged judged() {
        for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
             std::chrono::steady_clock::now() < until;) {
            static_cast<void>(advance());
            if (const Judged* const known = connection.take_judged()) return *known;
        }
        throw std::runtime_error("the beginning was never judged");
    }
    /// Whether nothing comes to `end`, however often the connection works.
    bool silent(const UniqueFd& end) {
        for (int turn = 0; turn < 20; ++turn) static_cast<void>(advance());
        pollfd wanted{end.get(), POLLIN, 0};
        return ::poll(&wanted, 1, 0) == 0;
    }
};

TEST_CASE("a hello with an allowed name goes to the server, and bytes then go both ways") {
    Bench bench;
    const std::string hello = test::client_hello("B.example.org");
    bench.say(bench.client.near, hello);
    CHECK(bench.hear(bench.server.near, hello.size()) == hello);
    const std::string answer = test::in_records(test::server_hello(false), 16384);
    bench.say(bench.server.near, answer);
    const Judged judged = bench.judged();
    CHECK(judged.id == 7);
    CHECK(judged.beginning == Beginning::accepted);
    CHECK(bench.hear(bench.client.near, answer.size()) == answer);
    bench.say(bench.client.near, "encrypted");
    CHECK(bench.hear(bench.server.near, 9) == "encrypted");
}

TEST_CASE("of a hello with another name not a byte reaches the server") {
    Bench bench;
    bench.say(bench.client.near, test::client_hello("c.example.org"));
    const Judged judged = bench.judged();
    CHECK(judged.beginning == Beginning::other_name);
    CHECK(std::string(judged.name.data()) == "c.example.org");
    CHECK(bench.silent(bench.server.near));
    CHECK(bench.alert() == access_denied);
    CHECK(bench.advance() == Connection::Progress::over);
}

TEST_CASE("a refused client hears nothing before the refusal was taken") {
    Bench bench;
    bench.say(bench.client.near, test::client_hello("c.example.org"));
    CHECK(bench.judged().beginning == Beginning::other_name);
    CHECK(bench.silent(bench.client.near));
    CHECK(bench.alert() == access_denied);
}

TEST_CASE("of a hello with an encrypted one inside not a byte reaches the server") {
    const std::string hiding = test::in_records(
        test::hello_with(test::name_extension("a.example.org") + test::extension(0xfe0d, "x")), 16384);
    Bench first;
    first.say(first.client.near, hiding);
    CHECK(first.judged().beginning == Beginning::hidden_name);
    CHECK(first.silent(first.server.near));
    CHECK(first.alert() == access_denied);
    Bench second;
    const std::string hello = test::client_hello("a.example.org"),
                      retry = test::in_records(test::server_hello(true), 16384);
    second.say(second.client.near, hello);
    CHECK(second.hear(second.server.near, hello.size()) == hello);
    second.say(second.server.near, retry);
    CHECK(second.hear(second.client.near, retry.size()) == retry);
    second.say(second.client.near, hiding);
    CHECK(second.silent(second.client.near));
    CHECK(second.alert() == access_denied);
    CHECK(second.silent(second.server.near));
}

TEST_CASE("half a hello stays here") {
    Bench bench;
    const std::string hello = test::client_hello("a.example.org");
    bench.say(bench.client.near, hello.substr(0, hello.size() - 1));
    CHECK(bench.silent(bench.server.near));
    bench.say(bench.client.near, hello.substr(hello.size() - 1));
    CHECK(bench.hear(bench.server.near, hello.size()) == hello);
}

TEST_CASE("half a hello and then the end is no TLS") {
    Bench bench;
    bench.say(bench.client.near, test::client_hello("a.example.org").substr(0, 20));
    REQUIRE(::shutdown(bench.client.near.get(), SHUT_WR) == 0);
    CHECK(bench.judged().beginning == Beginning::not_tls);
}

TEST_CASE("other protocols are refused, and so is a server that speaks first") {
    Bench plain;
    plain.say(plain.client.near, "GET / HTTP/1.1\r\n\r\n");
    CHECK(plain.judged().beginning == Beginning::not_tls);
    CHECK(plain.silent(plain.server.near));
    Bench greeting;
    greeting.say(greeting.server.near, "SSH-2.0-server\r\n");
    CHECK(greeting.judged().beginning == Beginning::server_first);
    Bench unnamed;
    unnamed.say(unnamed.client.near, test::in_records(test::hello_message({}), 16384));
    CHECK(unnamed.judged().beginning == Beginning::no_name);
}

TEST_CASE("a second hello behind the first one waits for the server's answer") {
    Bench bench;
    const std::string hello = test::client_hello("a.example.org"), second = test::client_hello("c.org");
    bench.say(bench.client.near, hello + second);
    CHECK(bench.hear(bench.server.near, hello.size()) == hello);
    CHECK(bench.silent(bench.server.near));
    bench.say(bench.server.near, test::in_records(test::server_hello(true), 16384));
    const Judged judged = bench.judged();
    CHECK(judged.beginning == Beginning::other_name);
    CHECK(std::string(judged.name.data()) == "c.org");
    CHECK(bench.silent(bench.server.near));
}

TEST_CASE("nothing is said of a beginning while the server may ask for a second hello") {
    const std::string hello = test::client_hello("a.example.org"),
                      retry = test::in_records(test::server_hello(true), 16384);
    const std::pair<std::string, Beginning> seconds[] = {
        {hello, Beginning::accepted},
        {test::client_hello("c.example.org"), Beginning::other_name},
        {test::in_records(test::hello_message({}), 16384), Beginning::no_name}};
    for (const auto& [second, beginning] : seconds) {
        Bench bench;
        bench.say(bench.client.near, hello);
        CHECK(bench.hear(bench.server.near, hello.size()) == hello);
        CHECK(bench.connection.take_judged() == nullptr);
        bench.say(bench.server.near, retry);
        CHECK(bench.hear(bench.client.near, retry.size()) == retry);
        CHECK(bench.connection.take_judged() == nullptr);
        bench.say(bench.client.near, second);
        CHECK(bench.judged().beginning == beginning);
    }
}

TEST_CASE("a connection is over when its server ends in place of a second hello") {
    Bench bench;
    const std::string hello = test::client_hello("a.example.org"),
                      retry = test::in_records(test::server_hello(true), 16384);
    bench.say(bench.client.near, hello);
    CHECK(bench.hear(bench.server.near, hello.size()) == hello);
    bench.say(bench.server.near, retry + "last words");
    bench.server.near.reset();
    CHECK(bench.hear(bench.client.near, retry.size() + 11) == retry + "last words");
    CHECK(bench.judged().beginning == Beginning::abandoned);
    CHECK(bench.advance() == Connection::Progress::over);
}

TEST_CASE("a second hello that the server asked for is judged, early data and the dummy record are not") {
    Bench bench;
    const std::string hello = test::client_hello("a.example.org");
    const std::string early = "\x17\x03\x03" + test::vector("early", 2), dummy("\x14\x03\x03\x00\x01\x01", 6);
    bench.say(bench.client.near, hello + early);
    CHECK(bench.hear(bench.server.near, hello.size() + early.size()) == hello + early);
    const std::string retry = test::in_records(test::server_hello(true), 16384);
    bench.say(bench.server.near, retry);
    CHECK(bench.hear(bench.client.near, retry.size()) == retry);
    bench.say(bench.client.near, dummy + hello);
    CHECK(bench.hear(bench.server.near, dummy.size() + hello.size()) == dummy + hello);
    bench.say(bench.client.near, "finished");
    CHECK(bench.hear(bench.server.near, 8) == "finished");
}

TEST_CASE("each end is told when the other has sent its last byte") {
    Bench bench;
    const std::string hello = test::client_hello("a.example.org");
    const std::string answer = test::in_records(test::server_hello(false), 16384);
    bench.say(bench.client.near, hello);
    bench.say(bench.server.near, "");
    CHECK(bench.hear(bench.server.near, hello.size()) == hello);
    bench.say(bench.server.near, answer);
    CHECK(bench.hear(bench.client.near, answer.size()) == answer);
    REQUIRE(::shutdown(bench.client.near.get(), SHUT_WR) == 0);
    CHECK(bench.hear(bench.server.near, 1).empty());
    bench.say(bench.server.near, "last words");
    CHECK(bench.hear(bench.client.near, 10) == "last words");
    REQUIRE(::shutdown(bench.server.near.get(), SHUT_WR) == 0);
    CHECK(bench.hear(bench.client.near, 1).empty());
    CHECK(bench.advance() == Connection::Progress::over);
}

TEST_CASE("what a slow receiver does not take waits, and arrives whole") {
    Bench bench;
    const std::string hello = test::client_hello("a.example.org");
    bench.say(bench.client.near, hello);
    CHECK(bench.hear(bench.server.near, hello.size()) == hello);
    bench.say(bench.server.near, test::in_records(test::server_hello(false), 16384));
    REQUIRE(::fcntl(bench.client.near.get(), F_SETFL, O_NONBLOCK) == 0);
    std::string sent;
    for (int full = 0; full < 50;) {
        std::string piece(10000, static_cast<char>('a' + sent.size() / 10000 % 26));
        const ssize_t put =
            ::send(bench.client.near.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put > 0) sent += piece.substr(0, static_cast<std::size_t>(put));
        full = put > 0 ? 0 : full + 1;
        static_cast<void>(bench.advance());
    }
    CHECK(bench.hear(bench.server.near, sent.size()) == sent);
}

TEST_CASE("a server that resets the connection resets the client's") {
    Bench bench;
    const std::string hello = test::client_hello("a.example.org");
    bench.say(bench.client.near, hello);
    CHECK(bench.hear(bench.server.near, hello.size()) == hello);
    const linger reset{1, 0};
    REQUIRE(::setsockopt(bench.server.near.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    bench.server.near.reset();
    auto progress = Connection::Progress::waits;
    for (int turn = 0; turn < 1000 && progress != Connection::Progress::over; ++turn)
        progress = bench.advance();
    CHECK(progress == Connection::Progress::over);
}

}  // namespace

}  // namespace callgate::relay
