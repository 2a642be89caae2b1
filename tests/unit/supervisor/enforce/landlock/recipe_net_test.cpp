#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>

#include "tests/unit/supervisor/enforce/landlock/landlock_domain.hpp"

using namespace callgate;
using namespace callgate::agent;
using namespace callgate::enforce;
using namespace callgate::agent::test;

namespace {

UniqueFd loopback_socket(bool listening, std::uint16_t& port) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) throw std::runtime_error("bind");
    if (listening && ::listen(fd.get(), 8) != 0) throw std::runtime_error("listen");
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ::ntohs(address.sin_port);
    return fd;
}

int try_connect(std::uint16_t port) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = ::htons(port);
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    return result_of(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
}

int try_bind(std::uint16_t port) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = ::htons(port);
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    return result_of(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
}

class AbstractServer {
public:
    AbstractServer() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un any{};
        any.sun_family = AF_UNIX;
        // The kernel chooses a free abstract name for an address of the family alone.
        if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&any), sizeof(sa_family_t)) != 0 ||
            ::listen(fd_.get(), 8) != 0)
            throw std::runtime_error("abstract socket");
        ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address_), &size_);
    }
    [[nodiscard]] int try_connect() const {
        const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        return result_of(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address_), size_));
    }

private:
    UniqueFd fd_;
    sockaddr_un address_{};
    socklen_t size_ = sizeof address_;
};

}  // namespace

TEST_CASE("TCP ports that are granted can be connected to and bound, others not") {
    if (skipped_below(4)) return;
    std::uint16_t open_port = 0, closed_port = 0;
    const UniqueFd open_server = loopback_socket(true, open_port);
    const UniqueFd closed_server = loopback_socket(true, closed_port);
    rules::Plan ports = plan(kernel_landlock_abi(), {});
    ports.tcp_connect.ports = {{open_port, open_port}};
    const UniqueFd ruleset = ruleset_of(ports);
    CHECK(in_domain(ruleset, [&] { return try_connect(open_port); }) == 0);
    CHECK(in_domain(ruleset, [&] { return try_connect(closed_port); }) == EACCES);
    CHECK(in_domain(ruleset, [&] { return try_bind(open_port); }) == EACCES);
    ports.tcp_connect.all = true;
    ports.tcp_bind.ports = {{open_port, open_port}};
    const UniqueFd wider = ruleset_of(ports);
    CHECK(in_domain(wider, [&] { return try_connect(closed_port); }) == 0);
    CHECK(in_domain(wider, [&] { return try_bind(open_port); }) == EADDRINUSE);
    CHECK(in_domain(wider, [&] { return try_bind(closed_port); }) == EACCES);
}

TEST_CASE("port ranges beyond the bound are left out whole and named") {
    const PortSplit split = split_ports({{1, 1000}, {8000, 65535}, {2000, 2023}, {3000, 3000}, {9, 8}});
    CHECK(split.held == std::vector<rules::PortRange>{{1, 1000}, {2000, 2023}});
    CHECK(split.left_out == std::vector<rules::PortRange>{{8000, 65535}, {3000, 3000}});
    if (skipped_below(4)) return;
    rules::Plan ports = plan(kernel_landlock_abi(), {});
    ports.tcp_connect.ports = {{0, 65535}};
    const auto ruleset = RulesetRecipe(ports).parts().make();
    REQUIRE(ruleset.has_value());
    CHECK(in_domain(*ruleset, [] { return try_connect(9); }) == EACCES);
}

TEST_CASE("a target cannot signal who is outside, nor reach an abstract socket there") {
    if (skipped_below(6)) return;
    const AbstractServer server;
    const UniqueFd scoped = ruleset_of(plan(kernel_landlock_abi(), {}));
    const pid_t outside = ::getpid();
    CHECK(in_domain(scoped, [&] { return result_of(::kill(outside, 0)); }) == EPERM);
    CHECK(in_domain(scoped, [&] { return server.try_connect(); }) == EPERM);
    CHECK(in_child([&] { return result_of(::kill(outside, 0)); }) == 0);
    CHECK(in_child([&] { return server.try_connect(); }) == 0);
}
