// connect through its handler: recorded before the effect, and no effect if recording fails.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>

#include "tests/fakes/call_bench.hpp"
#include "tests/unit/rules/rule_maker.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using fakes::at;
using fakes::CallBench;
using fakes::denied;
using fakes::number;
using rules::Action;
using rules::Operation;

namespace {

/// A listener on the loopback, at a port of the kernel's choice.
struct Listening {
    Listening() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const raw = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(fd.get(), raw, size) == 0);
        REQUIRE(::listen(fd.get(), 8) == 0);
        REQUIRE(::getsockname(fd.get(), raw, &size) == 0);
    }
    UniqueFd fd;
    sockaddr_in address{};
};

/// Whether a client has connected.
bool reached(const UniqueFd& listener) {
    pollfd one{listener.get(), POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
}

UniqueFd unix_listener(const std::string& name) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, name.c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd.get(), 8) == 0);
    return fd;
}

rules::Rule tcp_rule(Action action, const Listening& to) {
    rules::Rule rule = rules::tests::rule("tcp", action, Operation::connect);
    rule.when.protocol = {.tcp = true};
    const std::uint16_t port = ntohs(to.address.sin_port);
    rule.when.port.push_back({port, port});
    return rule;
}

struct ConnectBench : CallBench {
    explicit ConnectBench(std::vector<rules::Rule> all) : CallBench(std::move(all), Action::deny) {}

    UniqueFd client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    template <class Address>
    kernel::Answer connect(const UniqueFd& socket, const Address& address) {
        return handle("connect", {number(socket.get()), at(&address), sizeof address});
    }
};

}  // namespace

TEST_CASE("a connection is made after its record") {
    Listening listener;
    ConnectBench bench({tcp_rule(Action::allow, listener)});
    bool reached_at_record = true;
    bench.kept.on_record = [&] { reached_at_record = reached(listener.fd); };
    const auto answer = bench.connect(bench.client, listener.address);
    CHECK(answer.error == 0);
    CHECK_FALSE(answer.let_continue);
    CHECK_FALSE(reached_at_record);
    CHECK(bench.kept.lines.size() == 1);
    CHECK(reached(listener.fd));
}

TEST_CASE("where the log cannot be written nobody is reached") {
    Listening listener;
    ConnectBench bench({tcp_rule(Action::allow, listener)});
    bench.fill_log();
    CHECK(denied(bench.connect(bench.client, listener.address), EACCES));
    CHECK_FALSE(reached(listener.fd));
}

TEST_CASE("a denied connection is on record and reaches nobody") {
    Listening listener;
    ConnectBench bench({tcp_rule(Action::deny, listener)});
    CHECK(denied(bench.connect(bench.client, listener.address), ECONNREFUSED));
    CHECK(bench.kept.count("\"deny\"") == 1);
    CHECK_FALSE(reached(listener.fd));
}

TEST_CASE("a connection that the rules ask about is denied where nobody can be asked") {
    Listening listener;
    ConnectBench bench({tcp_rule(Action::ask, listener)});
    CHECK(denied(bench.connect(bench.client, listener.address), ECONNREFUSED));
    CHECK(bench.kept.count("no one to ask") == 1);
    CHECK_FALSE(reached(listener.fd));
}

TEST_CASE("an address that is changed after it was judged leads nowhere else") {
    Listening judged, other;
    ConnectBench bench({tcp_rule(Action::allow, judged)});
    sockaddr_in address = judged.address;
    bench.kept.on_record = [&] { address = other.address; };
    CHECK(bench.connect(bench.client, address).error == 0);
    CHECK(reached(judged.fd));
    CHECK_FALSE(reached(other.fd));
}

TEST_CASE("a descriptor that is replaced after it was judged is not the one that connects") {
    Listening listener;
    ConnectBench bench({tcp_rule(Action::allow, listener)});
    UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const UniqueFd judged(::fcntl(bench.client.get(), F_DUPFD_CLOEXEC, 0));
    bench.kept.on_record = [&] { ::dup3(other.get(), bench.client.get(), O_CLOEXEC); };
    CHECK(bench.connect(bench.client, listener.address).error == 0);
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    CHECK(::getpeername(judged.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0);
    CHECK(::getpeername(other.get(), reinterpret_cast<sockaddr*>(&peer), &size) != 0);
}

TEST_CASE("what cannot be read or is no socket has the kernel's errno, and no record") {
    Listening listener;
    ConnectBench bench({tcp_rule(Action::allow, listener)});
    const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    CHECK(denied(bench.handle("connect", {number(bench.client.get()), 8, sizeof(sockaddr_in)}), EFAULT));
    CHECK(denied(bench.handle("connect", {number(bench.client.get()), at(&listener), number(-1)}), EINVAL));
    CHECK(denied(bench.handle("connect", {number(987), at(&listener.address), sizeof(sockaddr_in)}), EBADF));
    CHECK(denied(bench.connect(file, listener.address), ENOTSOCK));
    CHECK(bench.kept.lines.empty());
    CHECK_FALSE(reached(listener.fd));
}

TEST_CASE("a caller that no longer waits reaches nobody") {
    Listening listener;
    ConnectBench bench({tcp_rule(Action::allow, listener)});
    bench.source.nobody_waits = true;
    bench.connect(bench.client, listener.address);
    CHECK(bench.kept.lines.empty());
    CHECK_FALSE(reached(listener.fd));
}

TEST_CASE("a socket file that is swapped after it was judged is not the one that is reached") {
    const tests::TemporaryDirectory directory;
    const std::string judged_name = directory / "judged", other_name = directory / "other";
    const UniqueFd judged = unix_listener(judged_name), other = unix_listener(other_name);
    rules::Rule rule = rules::tests::rule("socket", Action::allow, Operation::connect);
    rule.when.unix_socket.push_back(rules::tests::glob(judged_name));
    rule.when.protocol = {.stream = true};
    ConnectBench bench({rule});
    const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bench.kept.on_record = [&] { std::filesystem::rename(other_name, judged_name); };
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, judged_name.c_str(), sizeof address.sun_path - 1);
    CHECK(bench.connect(client, address).error == 0);
    CHECK(reached(judged));
    CHECK_FALSE(reached(other));
}
