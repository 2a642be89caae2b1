// Servers of the test on loopback. Everything runs on one loop, so nothing waits for another thread.
#include "supervisor/names/upstream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>

#include "tests/unit/supervisor/names/packed_name.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::names;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;
using asio::ip::udp;

namespace {

using Message = std::vector<std::uint8_t>;
using Messages = std::vector<Message>;

constexpr std::string_view first = "127.53.0.1", second = "127.53.0.2";  // nobody else is there
constexpr std::size_t header = 12, flags = 2, answers = 7;

/// The query as an answer: its question, and one address if it is not truncated.
Message answered(Message query, std::uint8_t last = 7, bool truncated = false) {
    query[flags] |= truncated ? 0x82U : 0x80U;
    query[flags + 1] = 0x80;
    if (truncated) return query;
    query[answers] = 1;
    const Message address{0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, last};
    query.insert(query.end(), address.begin(), address.end());
    return query;
}

/// A name server by UDP and TCP. `how` makes the answers to a query, each of which is sent.
struct Server {
    using How = std::function<Messages(const Message& query, bool over_tcp)>;

    Server(asio::io_context& loop, std::string_view where, std::uint16_t at, How made)
        : how(std::move(made)), datagrams(loop), listener(loop) {
        const auto address = asio::ip::make_address(where);
        datagrams.open(udp::v4());
        datagrams.bind({address, at});
        listener.open(tcp::v4());
        listener.set_option(tcp::acceptor::reuse_address(true));
        listener.bind({address, port()});
        listener.listen();
        receive();
        accept();
    }
    [[nodiscard]] std::uint16_t port() const { return datagrams.local_endpoint().port(); }
    void receive() {
        datagrams.async_receive_from(asio::buffer(buffer), peer, [this](const auto& error, std::size_t size) {
            if (error) return;
            seen.emplace_back(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
            for (const Message& one : how(seen.back(), false)) datagrams.send_to(asio::buffer(one), peer);
            receive();
        });
    }
    void accept() {
        listener.async_accept([this](const auto& error, tcp::socket socket) {
            if (error) return;
            stream.emplace(std::move(socket));
            asio::async_read(*stream, asio::buffer(length), [this](const auto& failed, std::size_t) {
                if (!failed) read_message();
            });
            accept();
        });
    }
    void read_message() {
        over_tcp.resize(static_cast<std::size_t>(length[0] << 8U | length[1]));
        asio::async_read(*stream, asio::buffer(over_tcp), [this](const auto& failed, std::size_t) {
            if (failed) return;
            for (Message one : how(over_tcp, true)) {
                one.insert(one.begin(), {static_cast<std::uint8_t>(one.size() >> 8U),
                                         static_cast<std::uint8_t>(one.size())});
                asio::write(*stream, asio::buffer(one));
            }
        });
    }

    How how;
    udp::socket datagrams;
    tcp::acceptor listener;
    udp::endpoint peer;
    std::array<std::uint8_t, 512> buffer{};
    std::array<std::uint8_t, 2> length{};
    std::optional<tcp::socket> stream;
    Message over_tcp;
    std::vector<Message> seen;
};

Server::How always(std::uint8_t last = 7) {
    return [last](const Message& query, bool) { return Messages{answered(query, last)}; };
}
Server::How never() {
    return [](const Message&, bool) { return Messages(); };
}

struct Bench {
    asio::io_context loop;
    callgate::tests::TemporaryDirectory directory;
    std::string file = directory / "resolv.conf";
    std::unique_ptr<Upstream> upstream;
    std::optional<Message> got;
    int calls = 0;

    void name(std::initializer_list<std::string_view> servers) const {
        std::ofstream out(file + ".new");
        for (const std::string_view one : servers) out << "nameserver " << one << '\n';
        out.close();
        REQUIRE(::rename((file + ".new").c_str(), file.c_str()) == 0);
    }
    void open(std::uint16_t port, std::chrono::milliseconds first_try = 100ms) {
        upstream = std::make_unique<Upstream>(
            loop, Upstream::Servers{.file = file, .port = port, .first_try = first_try});
    }
    void ask(const std::string& of = "www.example.org") {
        got.reset();
        upstream->ask(of, type_a, [this](Bytes message) {
            got.emplace(message.begin(), message.end());
            ++calls;
        });
    }
    /// The last byte of the answer: of its address.
    std::optional<int> asked() {
        ask();
        return wait();
    }
    std::optional<int> wait() {
        for (const auto end = std::chrono::steady_clock::now() + 30s;
             !got && std::chrono::steady_clock::now() < end;)
            loop.run_one_for(1s);
        REQUIRE(got);
        if (got->empty()) return std::nullopt;
        return got->back();
    }
};

}  // namespace

TEST_CASE("a query holds a name and a type, and its answer comes as the server sent it") {
    Bench bench;
    Server server(bench.loop, first, 0, always());
    bench.name({first});
    bench.open(server.port());
    CHECK(bench.asked() == 7);
    REQUIRE(server.seen.size() == 1);
    const Message& query = server.seen.front();
    CHECK(Message(query.begin() + flags, query.begin() + header) == Message{1, 0, 0, 1, 0, 0, 0, 0, 0, 0});
    Message question = callgate::names::tests::packed("www.example.org");
    question.insert(question.end(), {0, 1, 0, 1});
    CHECK(Message(query.begin() + header, query.end()) == question);  // nothing else: no EDNS
    CHECK(*bench.got == answered(query));
}

TEST_CASE("a truncated answer is asked for again over TCP") {
    Bench bench;
    Server server(bench.loop, first, 0, [](const Message& query, bool over_tcp) {
        return Messages{over_tcp ? answered(query, 9) : answered(query, 0, true)};
    });
    bench.name({first});
    bench.open(server.port());
    CHECK(bench.asked() == 9);
    CHECK(server.seen.size() == 1);
    CHECK(server.over_tcp.size() == server.seen.front().size());
}

TEST_CASE("what is no answer to the query does not count") {
    Bench bench;
    Server::How how;
    udp::socket other(bench.loop, udp::endpoint(asio::ip::make_address(second), 0));
    Server* asked = nullptr;
    SUBCASE("another number") {
        how = [](const Message& query, bool) {
            Message wrong = answered(query, 66);
            wrong[0] ^= 1U;
            return Messages{wrong, answered(query)};
        };
    }
    SUBCASE("another question") {
        how = [](const Message& query, bool) {
            Message wrong = answered(query, 66);
            wrong[header + 1] = 'x';
            return Messages{wrong, answered(query)};
        };
    }
    SUBCASE("from elsewhere") {
        how = [&](const Message& query, bool) {
            other.send_to(asio::buffer(answered(query, 66)), asked->peer);
            return Messages{answered(query)};
        };
    }
    SUBCASE("no message") {
        // Older c-ares goes on to wait, newer c-ares asks once more.
        how = [first_time = true](const Message& query, bool) mutable {
            Messages answers{answered(query)};
            if (std::exchange(first_time, false)) answers.insert(answers.begin(), Message{1, 2, 3});
            return answers;
        };
    }
    Server server(bench.loop, first, 0, how);
    asked = &server;
    bench.name({first});
    bench.open(server.port(), 2500ms);
    CHECK(bench.asked() == 7);
    CHECK(bench.calls == 1);
}

TEST_CASE("the next server is asked where one does not answer") {
    Bench bench;
    Server good(bench.loop, second, 0, always());
    std::unique_ptr<Server> silent;
    SUBCASE("nobody is there") {}
    SUBCASE("it is silent") { silent = std::make_unique<Server>(bench.loop, first, good.port(), never()); }
    SUBCASE("it failed") {
        silent = std::make_unique<Server>(bench.loop, first, good.port(), [](const Message& query, bool) {
            Message failed = answered(query, 0, true);
            failed[flags] = 0x80;
            failed[flags + 1] = 0x82;
            return Messages{failed};
        });
    }
    bench.name({first, second});
    bench.open(good.port());
    CHECK(bench.asked() == 7);
    CHECK(good.seen.size() == 1);
}

TEST_CASE("the answer is empty where no server answers, after two tries") {
    Bench bench;
    Server silent(bench.loop, first, 0, never());
    bench.name({first});
    bench.open(silent.port(), 20ms);
    CHECK_FALSE(bench.asked());
    CHECK(silent.seen.size() == 2);
    CHECK(bench.calls == 1);
}

TEST_CASE("other servers count as soon as the file names them") {
    Bench bench;
    Server old(bench.loop, first, 0, always(1));
    Server fresh(bench.loop, second, old.port(), always(2));
    bench.name({first});
    bench.open(old.port());
    CHECK(bench.asked() == 1);
    bench.name({second});
    CHECK(bench.asked() == 2);
    CHECK(old.seen.size() == 1);
    CHECK(fresh.seen.size() == 1);
}

TEST_CASE("a query that is under way keeps its server") {
    Bench bench;
    Server old(bench.loop, first, 0, always(1));
    Server fresh(bench.loop, second, old.port(), always(2));
    bench.name({first});
    bench.open(old.port(), 2500ms);
    std::vector<std::uint8_t> last;
    for (const std::string_view server : {first, second}) {
        bench.name({server});
        bench.upstream->ask("www.example.org", type_a, [&](Bytes message) {
            REQUIRE_FALSE(message.empty());
            last.push_back(message.back());
        });
    }
    while (last.size() < 2) REQUIRE(bench.loop.run_one_for(30s) == 1);
    std::ranges::sort(last);
    CHECK(last == std::vector<std::uint8_t>{1, 2});
}

TEST_CASE("nothing is called once the upstream is gone") {
    Bench bench;
    Server server(bench.loop, first, 0, always());
    bench.name({first});
    bench.open(server.port());
    bench.ask();
    bench.upstream.reset();
    while (server.seen.empty()) REQUIRE(bench.loop.run_one_for(30s) == 1);
    bench.loop.poll();
    CHECK(bench.calls == 0);
}
