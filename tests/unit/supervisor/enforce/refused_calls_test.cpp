#include "supervisor/enforce/refused_calls.hpp"

#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>

#include "supervisor/enforce/call_classes.hpp"
#include "supervisor/enforce/filter_spec.hpp"

using namespace callgate;
using namespace callgate::enforce;

namespace {

constexpr std::uint32_t native =
    native_architecture == Architecture::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
constexpr std::uint64_t garbage = 0xdeadbeef00000000;

using Arguments = std::array<std::uint64_t, 6>;

rules::Plan plan(bool open) {
    rules::Plan made;
    made.landlock_abi = open ? 1 : 7;
    made.udp = made.unix_datagram = open;
    made.signals_held = !open;
    if (open) made.notified = rules::file_operations | rules::network_operations;
    return made;
}

std::uint32_t answer(const std::vector<sock_filter>& program, std::uint32_t call,
                     const Arguments& arguments) {
    std::uint64_t words[6];
    std::ranges::copy(arguments, words);
    return simulate(program, native, call, words);
}

}  // namespace

TEST_CASE("exactly the refusals with a kind are notified, and each keeps its errno") {
    // Values that the filter tests, their neighbours, and anything else.
    constexpr std::uint64_t values[] = {0,
                                        1,
                                        2,
                                        3,
                                        5,
                                        6,
                                        10,
                                        16,
                                        17,
                                        38,
                                        58,
                                        132,
                                        136,
                                        262,
                                        SOCK_DGRAM | SOCK_CLOEXEC,
                                        SOCK_RAW | SOCK_NONBLOCK,
                                        CLONE_NEWUSER,
                                        CLONE_NEWNS | SIGCHLD,
                                        TIOCSTI,
                                        0x400000,
                                        0xffffffff,
                                        ~0ULL,
                                        MSG_FASTOPEN};
    std::mt19937_64 random(22);  // NOLINT(cert-msc51-cpp): the same each time
    for (const bool open : {false, true}) {
        const FilterSpec spec = filter_spec(plan(open));
        const RefusedCalls refused(spec);
        const auto silent = compile(spec), noted = compile(with_refusals_notified(spec));
        std::size_t found_some = 0;
        for (int round = 0; round < 20'000; ++round) {
            const auto call = round % 4 == 0 ? static_cast<std::uint32_t>(random() % (newest_call + 2))
                                             : std::array{call_number("socket"), call_number("ioctl"),
                                                          call_number("unshare")}[random() % 3];
            Arguments arguments{};
            for (std::uint64_t& one : arguments) {
                one = values[random() % std::size(values)] | (random() % 4 == 0 ? garbage : 0);
            }
            CAPTURE(call);
            const std::uint32_t before = answer(silent, call, arguments);
            const std::uint32_t after = answer(noted, call, arguments);
            const RefusedCalls::Refused found = refused.find(call, arguments);
            if (found.kind != nullptr) {
                ++found_some;
                REQUIRE(before == (SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(found.error)));
                REQUIRE(after == SECCOMP_RET_USER_NOTIF);
            } else {
                REQUIRE(after == before);
            }
        }
        CHECK(found_some > 1'000);
    }
}

TEST_CASE("calls after which every program falls back stay in the kernel") {
    const RefusedCalls refused(filter_spec(plan(true)));
    CHECK(refused.find(SYS_clone3, {}).kind == nullptr);
    CHECK(refused.find(SYS_sendto, {0, 0, 0, MSG_FASTOPEN, 0, 0}).kind == nullptr);
    CHECK(refused.find(470, {}).kind == nullptr);
    CHECK(refused.find(SYS_read, {}).kind == nullptr);
    CHECK(refused.find(0xffffffff, {}).kind == nullptr);
    CHECK(RefusedCalls().find(SYS_unshare, {CLONE_NEWUSER}).kind == nullptr);
}

TEST_CASE("the kind says what was refused") {
    const RefusedCalls refused(filter_spec(plan(false)));
    const auto kind = [&](std::uint32_t call, const Arguments& arguments) {
        const auto* const found = refused.find(call, arguments).kind;
        REQUIRE(found != nullptr);
        return found;
    };
    CHECK(kind(SYS_socket, {AF_INET, garbage | SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP}) == &refused::udp);
    CHECK(kind(SYS_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6}) == &refused::raw);
    CHECK(kind(SYS_socket, {AF_INET, SOCK_STREAM, 262}) == &refused::mptcp);
    CHECK(kind(SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}) == &refused::protocols);
    CHECK(kind(SYS_socket, {AF_NETLINK, SOCK_RAW, 15}) == &refused::netlink);
    CHECK(kind(SYS_socketpair, {AF_UNIX, SOCK_RAW}) == &refused::unix_datagram);
    CHECK(kind(SYS_socket, {AF_PACKET, SOCK_RAW}) == &refused::families);
    CHECK(kind(SYS_socket, {AF_ALG, SOCK_SEQPACKET}) == &refused::kernel_crypto);
    CHECK(refused::kernel_crypto.probed);  // hardlink(1) tries it and compares files by itself
    CHECK(kind(SYS_unshare, {garbage | CLONE_NEWNET}) == &refused::namespaces);
    CHECK(kind(SYS_pivot_root, {}) == &refused::mounts);
    CHECK(refused.find(SYS_chroot, {}).kind == nullptr);
    CHECK(kind(SYS_ioctl, {0, TIOCSTI}) == &refused::terminal_input);
    CHECK(kind(SYS_ioctl, {0, 0x541c}) == &refused::console);  // TIOCLINUX
    CHECK(refused.find(SYS_ioctl, {0, TCGETS}).kind == nullptr);
}

TEST_CASE("every closed call has a kind, or a reason to have none") {
    for (const CallGroup& group : call_groups()) {
        if (group.held != CallClass::closed || group.refused != nullptr) continue;
        const bool falls_back = group.calls == "clone3" || group.reason.starts_with("no kernel");
        CHECK_MESSAGE(falls_back, group.calls);
    }
    for (const Refusal& one : refusals()) {
        if (one.refused != nullptr) continue;
        const bool falls_back =
            one.what == "MSG_FASTOPEN" || one.what == "F_SETOWN_EX" || one.call == "pidfd_send_signal";
        CHECK_MESSAGE(falls_back, one.what);
    }
}
