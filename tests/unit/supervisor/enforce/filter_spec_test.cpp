#include "supervisor/enforce/filter_spec.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <set>

#include "supervisor/enforce/call_table.hpp"
#include "supervisor/receive/dispatch.hpp"

using namespace callgate;
using rules::Operation;

namespace {

constexpr std::uint32_t native =
#if defined(__x86_64__)
    AUDIT_ARCH_X86_64;
#else
    AUDIT_ARCH_AARCH64;
#endif

rules::Plan plan_with(rules::OperationSet notified) {
    rules::Plan plan;
    plan.landlock_abi = 7;
    plan.notified = notified;
    plan.truncation_held = plan.signals_held = true;
    return plan;
}

class Filter {
public:
    explicit Filter(const rules::Plan& plan) : program_(enforce::compile(enforce::filter_spec(plan))) {}
    std::uint32_t operator()(long call, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
                             std::uint64_t d = 0, std::uint64_t e = 0) const {
        const std::uint64_t arguments[6] = {a, b, c, d, e, 0};
        return enforce::simulate(program_, native, static_cast<std::uint32_t>(call), arguments);
    }

private:
    std::vector<sock_filter> program_;
};

constexpr std::uint32_t allowed = SECCOMP_RET_ALLOW;
constexpr std::uint32_t notified = SECCOMP_RET_USER_NOTIF;
constexpr std::uint32_t refused(int error) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error); }
constexpr std::uint64_t garbage = 0xdeadbeef00000000;

}  // namespace

TEST_CASE("datagrams are not notified where Landlock holds them, and a nested run then decides none") {
    rules::Plan around, nested;
    around.notified = nested.notified = rules::Operation::connect;
    around.udp = nested.udp = true;
    CHECK_FALSE(enforce::lacks_for_nested(around, nested));
    const auto asks = [](const rules::Plan& plan) {
        const auto calls = enforce::notified_calls(plan);
        return std::ranges::any_of(calls,
                                   [](const enforce::NotifiedCall& one) { return one.name == "sendmsg"; });
    };
    CHECK(asks(around));
    around.sends_held = true;
    CHECK_FALSE(asks(around));
    CHECK(enforce::lacks_for_nested(around, nested)
              .value_or("")
              .starts_with("these rules decide datagrams one by one"));
    nested.udp = false;
    CHECK_FALSE(enforce::lacks_for_nested(around, nested));
}

TEST_CASE("messages that Landlock holds are not notified, and sends with an address are") {
    rules::Plan around, nested;
    around.notified = nested.notified = rules::Operation::connect;
    around.unix_datagram = nested.unix_datagram = true;
    around.messages_held = true;
    const auto asks = [](const rules::Plan& plan, std::string_view name) {
        const auto calls = enforce::notified_calls(plan);
        return std::ranges::any_of(calls, [&](const enforce::NotifiedCall& one) { return one.name == name; });
    };
    CHECK(asks(around, "sendto"));
    CHECK_FALSE(asks(around, "sendmsg"));
    CHECK_FALSE(asks(around, "sendmmsg"));
    CHECK(asks(nested, "sendmmsg"));
    CHECK_FALSE(enforce::lacks_for_nested(around, nested));  // its own Landlock holds them
    around.udp = true;
    CHECK(asks(around, "sendmsg"));
}

TEST_CASE("every mediated call has one entry, a name and a handler") {
    std::set<std::uint32_t> numbers;
    std::set<std::string_view> names;
    for (const enforce::CallEntry& entry : enforce::call_table()) {
        if (entry.number != enforce::no_number)
            CHECK_MESSAGE(numbers.insert(entry.number).second, entry.name);
        CHECK_MESSAGE(names.insert(entry.name).second, entry.name);
        CHECK((handler_of(entry) != nullptr));
    }
    CHECK(enforce::find_call(SYS_read) == nullptr);
    CHECK(enforce::find_call(100'000) == nullptr);
}

TEST_CASE("read-only opens are notified only where reads are contested") {
    const Filter writes(plan_with({Operation::modify, Operation::create}));
    CHECK(writes(SYS_openat, 0, 0, O_RDONLY | O_CLOEXEC) == allowed);
    CHECK(writes(SYS_openat, 0, 0, O_RDONLY | O_DIRECTORY) == allowed);
    CHECK(writes(SYS_openat, 0, 0, O_WRONLY) == notified);
    CHECK(writes(SYS_openat, 0, 0, garbage | O_RDWR) == notified);
    CHECK(writes(SYS_openat, 0, 0, O_RDONLY | O_CREAT) == notified);
    CHECK(writes(SYS_openat, 0, 0, O_RDONLY | O_TRUNC) == notified);
    CHECK(writes(SYS_openat, 0, 0, O_TMPFILE | O_WRONLY) == notified);
    CHECK(writes(SYS_openat2) == notified);

    const Filter reads(plan_with(Operation::read));
    CHECK(reads(SYS_openat, 0, 0, O_RDONLY) == notified);
    CHECK(reads(SYS_openat, 0, 0, O_RDWR) == notified);
    CHECK(reads(SYS_openat, 0, 0, O_WRONLY) == allowed);
    CHECK(reads(SYS_openat, 0, 0, O_PATH | O_CLOEXEC) == allowed);
    CHECK(reads(SYS_mkdirat) == allowed);
}

TEST_CASE("what nothing contests is not notified") {
    const Filter filter(plan_with({}));
    for (const long call : {SYS_openat, SYS_openat2, SYS_mkdirat, SYS_unlinkat, SYS_execve, SYS_connect,
                            SYS_bind, SYS_kill, SYS_read, SYS_write, SYS_futex, SYS_clone}) {
        CHECK(filter(call) == allowed);
    }
}

TEST_CASE("where look-ups are decided, UDP sockets come from the supervisor") {
    rules::Plan plan = plan_with(Operation::connect);
    plan.look_ups = true;
    const Filter filter(plan);
    for (const auto family : std::initializer_list<std::uint64_t>{AF_INET, AF_INET6}) {
        CHECK(filter(SYS_socket, family, SOCK_DGRAM, 0) == notified);
        CHECK(filter(SYS_socket, garbage | family, garbage | SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP) ==
              notified);
        CHECK(filter(SYS_socket, family, SOCK_DGRAM, IPPROTO_ICMP) == refused(EPROTONOSUPPORT));
        CHECK(filter(SYS_socket, family, SOCK_STREAM, 0) == allowed);
    }
    CHECK(filter(SYS_socket, AF_UNIX, SOCK_DGRAM, 0) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_sendmsg) == allowed);
    CHECK(filter(SYS_sendto, 3, 0, 0, 0, 1) == allowed);
    plan.udp = true;
    CHECK(Filter(plan)(SYS_socket, AF_INET, SOCK_DGRAM, 0) == allowed);
}

TEST_CASE("where descriptors cannot be copied, callgate makes the sockets that may be") {
    rules::Plan plan = plan_with({Operation::connect, Operation::bind});
    plan.sockets_on_behalf = plan.udp = true;
    const Filter filter(plan);
    for (const auto type : std::initializer_list<std::uint64_t>{SOCK_STREAM, SOCK_STREAM | SOCK_CLOEXEC}) {
        CHECK(filter(SYS_socket, AF_INET, type, 0) == notified);
        CHECK(filter(SYS_socket, AF_UNIX, type, 0) == notified);
    }
    CHECK(filter(SYS_socket, AF_INET6, SOCK_DGRAM, 0) == notified);
    CHECK(filter(SYS_socket, AF_NETLINK, SOCK_RAW, 0) == notified);
    CHECK(filter(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0) == allowed);
    CHECK(filter(SYS_socketpair, AF_INET, SOCK_STREAM, 0) == refused(EOPNOTSUPP));
    CHECK(filter(SYS_socketpair, AF_INET6, SOCK_DGRAM, 0) == refused(EOPNOTSUPP));
    CHECK(filter(SYS_socketpair, AF_PACKET, SOCK_RAW, 0) == refused(EAFNOSUPPORT));
    CHECK(filter(SYS_socket, AF_UNIX, SOCK_DGRAM, 0) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socket, AF_PACKET, SOCK_RAW, 0) == refused(EAFNOSUPPORT));
}

TEST_CASE("each call that can give a symbolic link a name is notified under every plan") {
    const Filter filter(plan_with({}));
    for (const long call : {SYS_symlinkat, SYS_renameat2, SYS_linkat}) CHECK(filter(call) == notified);
#ifdef SYS_symlink
    for (const long call : {SYS_symlink, SYS_rename, SYS_renameat, SYS_link}) CHECK(filter(call) == notified);
#endif
}

TEST_CASE("a mode with a set-id bit is notified under every plan that leaves them out") {
    rules::Plan plan = plan_with({});
    const Filter kept(plan);
    plan.set_ids_left_out = true;
    const Filter filter(plan);
    for (const auto bit : {std::uint64_t{S_ISUID}, std::uint64_t{S_ISGID}}) {
        CHECK(filter(SYS_fchmodat, 0, 0, garbage | bit | 0755) == notified);
        CHECK(filter(452 /* fchmodat2 */, 0, 0, bit) == notified);
        CHECK(filter(SYS_fchmod, 3, garbage | bit) == notified);
        CHECK(filter(SYS_mknodat, 0, 0, S_IFREG | bit, 0) == notified);
        CHECK(filter(SYS_openat, 0, 0, O_CREAT | O_WRONLY, bit | 0755) == notified);
        CHECK(filter(SYS_openat, 0, 0, garbage | O_TMPFILE | O_RDWR, bit) == notified);
        CHECK(kept(SYS_fchmod, 3, bit) == allowed);
        CHECK(kept(SYS_openat, 0, 0, O_CREAT, bit) == allowed);
        // Directories keep them, and these make nothing.
        CHECK(filter(SYS_mkdirat, 0, 0, bit | 0755) == allowed);
        CHECK(filter(SYS_openat, 0, 0, O_WRONLY, bit) == allowed);
        CHECK(filter(SYS_openat, 0, 0, O_RDONLY | O_DIRECTORY, bit) == allowed);
        CHECK(filter(SYS_openat, 0, 0, O_PATH | O_CREAT, bit) == allowed);
#ifdef SYS_open
        CHECK(filter(SYS_open, 0, O_CREAT, bit) == notified);
        CHECK(filter(SYS_creat, 0, bit) == notified);
        CHECK(filter(SYS_chmod, 0, bit) == notified);
        CHECK(filter(SYS_mknod, 0, bit, 0) == notified);
#endif
    }
    CHECK(filter(SYS_openat, 0, 0, O_CREAT | O_WRONLY, S_ISVTX | 0777) == allowed);
    CHECK(filter(SYS_fchmod, 3, S_ISVTX | 0777) == allowed);
    CHECK(filter(SYS_openat2) == notified);  // its mode lies in memory
    CHECK(kept(SYS_openat2) == allowed);
}

TEST_CASE("sockets that no rule can speak of cannot be made") {
    const Filter filter(plan_with(Operation::connect));
    CHECK(filter(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) == allowed);
    CHECK(filter(SYS_socket, garbage | AF_INET6, garbage | SOCK_STREAM, IPPROTO_TCP) == allowed);
    CHECK(filter(SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0) == allowed);
    CHECK(filter(SYS_socket, AF_INET, SOCK_DGRAM, 0) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socket, garbage | AF_INET, SOCK_DGRAM, 0) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socket, AF_INET, SOCK_STREAM, 262 /* MPTCP */) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP) == refused(EPERM));
    CHECK(filter(SYS_socket, AF_INET, SOCK_PACKET, 0) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socket, AF_UNIX, SOCK_DGRAM, 0) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socketpair, AF_UNIX, SOCK_RAW, 0) == refused(EPROTONOSUPPORT));
    CHECK(filter(SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0) == notified);
    CHECK(filter(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0) == allowed);
    CHECK(filter(SYS_socket, AF_NETLINK, SOCK_RAW, 0) == allowed);
    CHECK(filter(SYS_socket, AF_NETLINK, SOCK_RAW, 9 /* NETLINK_AUDIT */) == refused(EPROTONOSUPPORT));
    for (const int family : {AF_PACKET, AF_VSOCK, AF_ALG, AF_XDP, AF_TIPC, AF_BLUETOOTH, AF_CAN, AF_KEY}) {
        CHECK(filter(SYS_socket, static_cast<std::uint64_t>(family), SOCK_STREAM, 0) ==
              refused(EAFNOSUPPORT));
    }
    rules::Plan udp = plan_with(Operation::connect);
    udp.udp = true;
    const Filter opened(udp);
    CHECK(opened(SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDP) == allowed);
    CHECK(opened(SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE) == refused(EPROTONOSUPPORT));
    CHECK(opened(SYS_sendto, 0, 0, 0, 0, 0x1000) == notified);
    CHECK(opened(SYS_sendto, 0, 0, 0, 0, garbage) == notified);
    CHECK(opened(SYS_sendto) == allowed);
    CHECK(opened(SYS_sendmsg) == notified);
}

TEST_CASE("a send that would connect is refused") {
    const Filter filter(plan_with(Operation::connect));
    CHECK(filter(SYS_sendto, 0, 0, 0, MSG_FASTOPEN, 0) == refused(EOPNOTSUPP));
    CHECK(filter(SYS_sendmsg, 0, 0, garbage | MSG_FASTOPEN) == refused(EOPNOTSUPP));
    CHECK(filter(SYS_sendmmsg, 0, 0, 0, MSG_FASTOPEN) == refused(EOPNOTSUPP));
    CHECK(filter(SYS_sendmsg) == allowed);
}

TEST_CASE("doors that nothing mediates are closed") {
    const Filter filter(plan_with({Operation::read, Operation::metadata}));
    CHECK(filter(SYS_io_uring_setup) == refused(ENOSYS));
    CHECK(filter(SYS_clone3) == refused(ENOSYS));
    CHECK(filter(SYS_mount) == refused(EPERM));
    CHECK(filter(SYS_open_by_handle_at) == refused(EPERM));
    CHECK(filter(SYS_unshare, CLONE_NEWUSER) == refused(EPERM));
    CHECK(filter(SYS_unshare, CLONE_FILES) == allowed);
    CHECK(filter(SYS_clone, garbage | CLONE_NEWNS | SIGCHLD) == refused(EPERM));
    CHECK(filter(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD) == allowed);
    CHECK(filter(SYS_ioctl, 0, garbage | TIOCSTI) == refused(EPERM));
    CHECK(filter(SYS_ioctl, 0, TCGETS) == allowed);
    CHECK(filter(SYS_seccomp, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER) == refused(EBUSY));
    CHECK(filter(SYS_seccomp, 1, SECCOMP_FILTER_FLAG_TSYNC) == allowed);
    CHECK(filter(470) == refused(ENOSYS));
}

TEST_CASE(
    "of ioctls only those that set a file's attributes are notified, and only where metadata is limited") {
    const Filter limited(plan_with(Operation::metadata));
    CHECK(limited(SYS_ioctl, 3, FS_IOC_SETFLAGS) == notified);
    CHECK(limited(SYS_ioctl, 3, garbage | FS_IOC_FSSETXATTR) == notified);
    CHECK(limited(SYS_ioctl, 3, FS_IOC_SETVERSION) == refused(EOPNOTSUPP));
    const Filter free(plan_with({Operation::read, Operation::modify}));
    for (const std::uint64_t request : {FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION}) {
        CHECK(free(SYS_ioctl, 3, request) == allowed);
    }
    for (const std::uint64_t request : {std::uint64_t{TCGETS}, std::uint64_t{FIONREAD}, FS_IOC_GETFLAGS}) {
        CHECK(limited(SYS_ioctl, 3, request) == allowed);
    }
}

TEST_CASE("the slave of a terminal's master is opened by request, and that is notified where opens are") {
    for (const Operation contested : {Operation::read, Operation::modify}) {
        const Filter filter(plan_with(contested));
        CHECK(filter(SYS_ioctl, 3, garbage | TIOCGPTPEER, O_RDWR) == notified);
        CHECK(filter(SYS_ioctl, 3, TIOCGPTPEER, O_RDONLY) == notified);
        CHECK(filter(SYS_ioctl, 3, TIOCGPTPEER, O_PATH) == allowed);
        CHECK(filter(SYS_ioctl, 3, TCGETS, O_RDWR) == allowed);
    }
    CHECK(Filter(plan_with(Operation::metadata))(SYS_ioctl, 3, TIOCGPTPEER, O_RDWR) == allowed);
}

TEST_CASE(
    "of sockets' requests those that change the network are refused, and those that tell about it not") {
    const Filter filter(plan_with({}));
    for (const auto changes : std::initializer_list<std::uint64_t>{
             0x890b, 0x890c, 0x8914, 0x8916, 0x8918, 0x891a, 0x891c, 0x891e, 0x8922, 0x8923,
             0x8924, 0x8926, 0x8930, 0x8931, 0x8932, 0x8934, 0x8936, 0x8937, 0x8940, 0x8941,
             0x8943, 0x8949, 0x894a, 0x894c, 0x8953, 0x8955, 0x8960, 0x8962, 0x8971, 0x8980,
             0x8983, 0x8990, 0x8991, 0x8992, 0x8995, 0x89a0, 0x89a3, 0x89b0, 0x89f0, 0x89ff}) {
        CAPTURE(changes);
        CHECK(filter(SYS_ioctl, 3, garbage | changes) == refused(EPERM));
    }
    for (const auto tells : std::initializer_list<std::uint64_t>{
             0x8903, 0x8905, 0x8906, 0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891b,
             0x891d, 0x8921, 0x8927, 0x8929, 0x8933, 0x8935, 0x8938, 0x8942, 0x8946, 0x8947,
             0x8948, 0x894b, 0x8954, 0x8961, 0x8970, 0x8993, 0x8994, 0x89b1, 0x541b, 0x5421}) {
        CAPTURE(tells);
        CHECK(filter(SYS_ioctl, 3, tells) == allowed);
    }
    for (const auto option :
         std::initializer_list<std::uint64_t>{16, 17, 64, 65, 96, 97, 128, 129, 1152, 1167})
        CHECK(filter(SYS_setsockopt, 3, IPPROTO_IP, garbage | option) == refused(EPERM));
    for (const auto option : std::initializer_list<std::uint64_t>{34, 35, 64, 65})
        CHECK(filter(SYS_setsockopt, 3, garbage | IPPROTO_IPV6, option) == refused(EPERM));
    for (const auto option : std::initializer_list<std::uint64_t>{1, 2, 8, 11, 15, 35, 49})
        CHECK(filter(SYS_setsockopt, 3, IPPROTO_IP, option) == allowed);
    for (const auto option : std::initializer_list<std::uint64_t>{16, 26, 49, 66, 67})
        CHECK(filter(SYS_setsockopt, 3, IPPROTO_IPV6, option) == allowed);
    CHECK(filter(SYS_setsockopt, 3, SOL_SOCKET, 64) == allowed);
}

TEST_CASE("personalities that debuggers and old binaries need are left, others refused") {
    const Filter filter(plan_with({}));
    for (const std::uint64_t wanted : {0x0ULL, 0x8ULL, 0x20000ULL, 0x40000ULL, 0x40008ULL, 0xffffffffULL}) {
        CHECK(filter(SYS_personality, wanted) == allowed);
        CHECK(filter(SYS_personality, garbage | wanted) == allowed);
    }
    CHECK(filter(SYS_personality, 0x400000 /* READ_IMPLIES_EXEC */) == refused(EPERM));
    CHECK(filter(SYS_personality, 0x440000) == refused(EPERM));
    CHECK(filter(SYS_personality, 0x100000 /* MMAP_PAGE_ZERO */) == refused(EPERM));
    CHECK(filter(SYS_personality, 0x4 /* PER_SVR4 and others */) == refused(EPERM));
}

TEST_CASE("limits and priorities are judged for other processes only") {
    const Filter filter(plan_with({}));
    CHECK(filter(SYS_prlimit64, 0, 7, 0x1000) == allowed);
    CHECK(filter(SYS_prlimit64, 0, 4 /* RLIMIT_CORE */, 0x1000) == notified);
    CHECK(filter(SYS_prctl, 4 /* PR_SET_DUMPABLE */) == notified);
    CHECK(filter(SYS_prctl, 15 /* PR_SET_NAME */) == allowed);
    CHECK(filter(SYS_prlimit64, 5, 7, 0) == notified);
    CHECK(filter(SYS_prlimit64, 5, 7, 0x1000) == notified);
    CHECK(filter(SYS_setpriority, 0, 0) == allowed);
    CHECK(filter(SYS_setpriority, 0, 5) == notified);
    CHECK(filter(SYS_setpriority, 1, 0) == notified);
    CHECK(filter(SYS_sched_setaffinity, garbage) == allowed);
    CHECK(filter(SYS_sched_setaffinity, 5) == notified);
    rules::Plan old = plan_with({});
    old.signals_held = false;
    CHECK(Filter(old)(SYS_kill, 5) == notified);
    CHECK(filter(SYS_kill, 5) == allowed);
}

TEST_CASE("where the rules know parties, nothing reaches from one process into another") {
    rules::Plan parted = plan_with({});
    parted.parties = true;
    const Filter filter(parted), other(plan_with({}));
    for (const long call : {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd}) {
        CHECK(filter(call, 5) == refused(EPERM));
        CHECK(other(call, 5) == (call == SYS_ptrace ? allowed : notified));
    }
    CHECK(other(SYS_ptrace, PTRACE_ATTACH) == notified);
    CHECK(other(SYS_ptrace, PTRACE_SEIZE) == notified);
    CHECK(other(SYS_ptrace, PTRACE_TRACEME) == allowed);
    CHECK(filter(SYS_pidfd_send_signal, 5) == refused(ENOSYS));
    CHECK(filter(SYS_kill, 5) == notified);
}

TEST_CASE("each notified call names why") {
    rules::Plan plan = plan_with(Operation::read);
    plan.contests.push_back({Operation::read, {"secrets"}, "a rule may match"});
    bool seen = false;
    for (const auto& call : enforce::notified_calls(plan)) {
        CHECK_FALSE(call.because.empty());
        if (call.name == "openat") {
            seen = true;
            CHECK(call.because == std::vector<std::string>{"secrets"});
        }
        CHECK(call.name != "mkdir");
    }
    CHECK(seen);
}
