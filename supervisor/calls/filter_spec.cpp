#include "supervisor/calls/filter_spec.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "supervisor/calls/table.hpp"

// Newer than the headers of Debian 12: numbers are the same on all 64-bit architectures.
#ifndef SYS_setxattrat
#define SYS_setxattrat 463L
#define SYS_removexattrat 466L
#define SYS_open_tree_attr 467L
#define SYS_file_setattr 469L
#endif

namespace callgate::calls {

namespace {

using agent::ArgumentTest;
using agent::Disposition;
using agent::FilterRule;
using agent::FilterSpec;
using Compare = ArgumentTest::Compare;
using rules::Operation;
using rules::OperationSet;
using rules::Plan;

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#else
#error "callgate runs on x86_64 and aarch64"
#endif

constexpr std::uint32_t newest_call = 469;  // file_setattr, Linux 6.17
constexpr std::uint64_t socket_type_mask = 0xf;
constexpr std::uint64_t new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                         CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
                                         0x80 /* CLONE_NEWTIME */;

constexpr Disposition allow{Disposition::Kind::allow, 0};
constexpr Disposition trap{Disposition::Kind::trap, 0};
constexpr Disposition refuse(int error) { return {Disposition::Kind::refuse, error}; }

constexpr ArgumentTest equals(std::uint8_t argument, std::uint64_t value, std::uint64_t mask = 0xffffffff) {
    return {argument, Compare::masked_equal, true, mask, value};
}
constexpr ArgumentTest differs(std::uint8_t argument, std::uint64_t value, std::uint64_t mask = 0xffffffff) {
    return {argument, Compare::masked_not_equal, true, mask, value};
}
/// Any bit of `mask` set.
constexpr ArgumentTest has(std::uint8_t argument, std::uint64_t mask) { return differs(argument, 0, mask); }
/// A pointer that is not null: all 64 bits.
constexpr ArgumentTest given(std::uint8_t argument) { return {argument, Compare::non_zero, false, ~0ULL, 0}; }
constexpr ArgumentTest not_zero(std::uint8_t argument) {
    return {argument, Compare::non_zero, true, 0xffffffff, 0};
}

struct Closed {
    const char* name;
    int error;
    std::string_view why;
};

// Named as libseccomp names them; those that it does not know stand below by number. Names that this
// architecture has not are left out.
constexpr auto closed = std::to_array<Closed>({
    {"io_uring_setup", ENOSYS, "its operations pass no filter"},
    {"io_uring_enter", ENOSYS, "its operations pass no filter"},
    {"io_uring_register", ENOSYS, "its operations pass no filter"},
    {"clone3", ENOSYS, "its flags lie in memory; clone is fallen back to"},
    {"mount", EPERM, "names must mean the same to caller and supervisor"},
    {"umount2", EPERM, "names must mean the same to caller and supervisor"},
    {"pivot_root", EPERM, "names must mean the same to caller and supervisor"},
    {"chroot", EPERM, "names must mean the same to caller and supervisor"},
    {"move_mount", EPERM, "names must mean the same to caller and supervisor"},
    {"open_tree", EPERM, "names must mean the same to caller and supervisor"},
    {"fsopen", EPERM, "names must mean the same to caller and supervisor"},
    {"fsconfig", EPERM, "names must mean the same to caller and supervisor"},
    {"fsmount", EPERM, "names must mean the same to caller and supervisor"},
    {"fspick", EPERM, "names must mean the same to caller and supervisor"},
    {"mount_setattr", EPERM, "names must mean the same to caller and supervisor"},
    {"setns", EPERM, "names must mean the same to caller and supervisor"},
    {"open_by_handle_at", EPERM, "opens without a name"},
    {"fanotify_init", EPERM, "watches what others open"},
    {"userfaultfd", EPERM, "a page of it could hold a reader up"},
    {"bpf", EPERM, "reaches the kernel"},
    {"perf_event_open", EACCES, "observes other processes"},
    {"add_key", ENOSYS, "keyrings are shared by the whole user"},
    {"request_key", ENOSYS, "keyrings are shared by the whole user"},
    {"keyctl", ENOSYS, "keyrings are shared by the whole user"},
    {"shmget", ENOSYS, "System V objects are shared by the whole user"},
    {"shmat", ENOSYS, "System V objects are shared by the whole user"},
    {"shmctl", ENOSYS, "System V objects are shared by the whole user"},
    {"semget", ENOSYS, "System V objects are shared by the whole user"},
    {"semop", ENOSYS, "System V objects are shared by the whole user"},
    {"semtimedop", ENOSYS, "System V objects are shared by the whole user"},
    {"semctl", ENOSYS, "System V objects are shared by the whole user"},
    {"msgget", ENOSYS, "System V objects are shared by the whole user"},
    {"msgsnd", ENOSYS, "System V objects are shared by the whole user"},
    {"msgrcv", ENOSYS, "System V objects are shared by the whole user"},
    {"msgctl", ENOSYS, "System V objects are shared by the whole user"},
    {"mq_unlink", EACCES, "message queues are shared by the whole user"},
    {"kexec_load", EPERM, "administration of the machine"},
    {"kexec_file_load", EPERM, "administration of the machine"},
    {"init_module", EPERM, "administration of the machine"},
    {"finit_module", EPERM, "administration of the machine"},
    {"delete_module", EPERM, "administration of the machine"},
    {"quotactl", EPERM, "administration of the machine"},
    {"quotactl_fd", EPERM, "administration of the machine"},
    {"swapon", EPERM, "administration of the machine"},
    {"swapoff", EPERM, "administration of the machine"},
    {"reboot", EPERM, "administration of the machine"},
    {"settimeofday", EPERM, "administration of the machine"},
    {"clock_settime", EPERM, "administration of the machine"},
    {"acct", EPERM, "administration of the machine"},
    {"syslog", EPERM, "administration of the machine"},
    {"vhangup", EPERM, "administration of the machine"},
    {"sethostname", EPERM, "administration of the machine"},
    {"setdomainname", EPERM, "administration of the machine"},
    {"iopl", EPERM, "administration of the machine"},
    {"ioperm", EPERM, "administration of the machine"},
    {"lookup_dcookie", EPERM, "administration of the machine"},
    {"nfsservctl", ENOSYS, "administration of the machine"},
    {"uselib", ENOSYS, "opens without being judged"},
    {"_sysctl", ENOSYS, "administration of the machine"},
});

// Where metadata is limited: attributes that this version does not mediate. Software copies on without them.
constexpr std::array unmediated_attributes = {"setxattr",    "lsetxattr",    "fsetxattr",
                                              "removexattr", "lremovexattr", "fremovexattr"};

std::optional<std::uint32_t> number_of(const char* name) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number < 0) return std::nullopt;  // unknown, or of another architecture
    return static_cast<std::uint32_t>(number);
}

class Builder {
public:
    explicit Builder(const Plan& plan) : plan_(plan) {}

    FilterSpec build() {
        spec_.architecture = architecture;
        spec_.newest_call = newest_call;
        for (const CallEntry& entry : call_table()) mediated(entry);
        sockets();
        process_creation();
        devices();
        attributes();
        routing();
        for (const Closed& call : closed) {
            if (const auto number = number_of(call.name)) add(*number, {}, refuse(call.error));
        }
        add(SYS_open_tree_attr, {}, refuse(EPERM));
        // A second listener could answer what this one contests once it is closed (kernel-facts 34).
        add(SYS_seccomp, {equals(0, SECCOMP_SET_MODE_FILTER), has(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)},
            refuse(EBUSY));
        return std::move(spec_);
    }

private:
    void add(std::uint32_t call, std::vector<ArgumentTest> tests, Disposition then) {
        spec_.rules.push_back({call, std::move(tests), then});
    }

    void mediated(const CallEntry& entry) {
        if (entry.scope == Scope::stranger) return stranger(entry);
        if (entry.open != OpenFlags::none) return open(entry);
        if (entry.name.starts_with("send")) return send(entry);
        if (entry.operations.intersects(plan_.trapped)) return add(entry.number, {}, trap);
        if (entry.handle == handle_truncate && !plan_.truncation_held) add(entry.number, {}, trap);
    }

    /// O_PATH opens nothing (Landlock does not mediate it either); read-only opens and others are trapped
    /// each where something of theirs is contested.
    void open(const CallEntry& entry) {
        const bool reads = plan_.trapped.contains(Operation::read);
        const bool writes = plan_.trapped.intersects({Operation::modify, Operation::create});
        if (!reads && !writes) return;
        if (entry.open != OpenFlags::argument) return add(entry.number, {}, trap);
        const auto flags = static_cast<std::uint8_t>(entry.flags);
        constexpr std::uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE;
        add(entry.number, {has(flags, O_PATH)}, allow);
        if (!reads) {
            add(entry.number, {has(flags, writing & ~static_cast<std::uint64_t>(O_DIRECTORY))}, trap);
        } else {
            // Without contested writes, only what cannot read stays out; an O_RDWR open reads too.
            if (!writes) add(entry.number, {equals(flags, O_WRONLY, O_ACCMODE)}, allow);
            add(entry.number, {}, trap);
        }
    }

    void send(const CallEntry& entry) {
        const std::uint8_t flags = entry.number == SYS_sendmsg ? 2 : 3;
        add(entry.number, {has(flags, MSG_FASTOPEN)}, refuse(EOPNOTSUPP));
        if (!plan_.trapped.contains(Operation::connect) || (!plan_.udp && !plan_.unix_datagram)) return;
        if (entry.number == SYS_sendto) {
            add(entry.number, {given(4)}, trap);
        } else {
            add(entry.number, {}, trap);
        }
    }

    void stranger(const CallEntry& entry) {
        const std::string_view name = entry.name;
        const bool signals =
            name.find("kill") != std::string_view::npos || name.find("sig") != std::string_view::npos;
        if (signals) {
            if (!plan_.signals_held) add(entry.number, {}, trap);
        } else if (name == "prlimit64") {
            add(entry.number, {not_zero(0), given(2)}, trap);
        } else if (name == "setpriority" || name == "ioprio_set") {
            add(entry.number, {equals(0, name == "ioprio_set" ? 1 : 0), equals(1, 0)}, allow);
            add(entry.number, {}, trap);
        } else {
            add(entry.number, {not_zero(0)}, trap);
        }
    }

    void sockets() {
        const auto internet = [this](int family) {
            const auto of = [family](std::uint64_t type) {
                return std::vector{equals(0, static_cast<std::uint64_t>(family)),
                                   equals(1, type, socket_type_mask)};
            };
            const auto with = [](std::vector<ArgumentTest> tests, std::uint64_t protocol) {
                tests.push_back(equals(2, protocol));
                return tests;
            };
            add(SYS_socket, with(of(SOCK_STREAM), 0), allow);
            add(SYS_socket, with(of(SOCK_STREAM), IPPROTO_TCP), allow);
            if (plan_.udp) {
                add(SYS_socket, with(of(SOCK_DGRAM), 0), allow);
                add(SYS_socket, with(of(SOCK_DGRAM), IPPROTO_UDP), allow);
            }
            add(SYS_socket, of(SOCK_RAW), refuse(EPERM));
            add(SYS_socket, {equals(0, static_cast<std::uint64_t>(family))}, refuse(EPROTONOSUPPORT));
        };
        internet(AF_INET);
        internet(AF_INET6);
        if (plan_.unix_closed) add(SYS_socket, {equals(0, AF_UNIX)}, refuse(EACCES));
        for (const long call : {SYS_socket, SYS_socketpair}) {
            const auto number = static_cast<std::uint32_t>(call);
            add(number, {equals(0, AF_UNIX), equals(1, SOCK_STREAM, socket_type_mask)}, allow);
            add(number, {equals(0, AF_UNIX), equals(1, SOCK_SEQPACKET, socket_type_mask)}, allow);
            if (plan_.unix_datagram) {
                add(number, {equals(0, AF_UNIX), equals(1, SOCK_DGRAM, socket_type_mask)}, allow);
            }
            add(number, {equals(0, AF_UNIX)}, refuse(EPROTONOSUPPORT));
        }
        add(SYS_socket, {equals(0, AF_NETLINK), equals(2, NETLINK_ROUTE)}, allow);
        add(SYS_socket, {equals(0, AF_NETLINK)}, refuse(EPROTONOSUPPORT));
        add(SYS_socket, {}, refuse(EAFNOSUPPORT));
        add(SYS_socketpair, {}, refuse(EAFNOSUPPORT));
    }

    void process_creation() {
        add(SYS_clone, {has(0, new_namespaces & ~0x80ULL)},
            refuse(EPERM));  // the low byte is the exit signal there
        add(SYS_unshare, {has(0, new_namespaces)}, refuse(EPERM));
    }

    void devices() {
        constexpr std::uint64_t linux_console = 0x541c;  // TIOCLINUX
        add(SYS_ioctl, {equals(1, TIOCSTI)}, refuse(EPERM));
        add(SYS_ioctl, {equals(1, linux_console)}, refuse(EPERM));
        // Subvolumes and snapshots of btrfs: names that no path call makes or removes.
        for (const std::uint64_t request :
             {0x50009401UL, 0x5000940eUL, 0x5000940fUL, 0x50009417UL, 0x50009418UL, 0x5000943fUL}) {
            add(SYS_ioctl, {equals(1, request)}, refuse(EPERM));
        }
        // A queue that is made or removed outlives the run; Landlock does not ask for it.
        add(SYS_mq_open, {has(1, O_CREAT)}, refuse(EACCES));
        if (!plan_.signals_held) add(SYS_pidfd_send_signal, {}, refuse(ENOSYS));
    }

    /// A packet goes where its routing header says, whatever address was judged; and a socket that changes
    /// its family changes what an address means.
    void routing() {
        constexpr std::uint64_t ipv6_options[] = {1 /* ADDRFORM */, 5 /* 2292RTHDR */, 6 /* 2292PKTOPTIONS */,
                                                  57 /* RTHDR */};
        constexpr std::uint64_t ip_options = 4;
        for (const std::uint64_t option : ipv6_options) {
            add(SYS_setsockopt, {equals(1, IPPROTO_IPV6), equals(2, option)}, refuse(EPERM));
        }
        add(SYS_setsockopt, {equals(1, IPPROTO_IP), equals(2, ip_options)}, refuse(EPERM));
    }

    void attributes() {
        if (!plan_.trapped.contains(Operation::metadata)) return;
        for (const char* name : unmediated_attributes) {
            if (const auto number = number_of(name)) add(*number, {}, refuse(EOPNOTSUPP));
        }
        for (const long number : {SYS_setxattrat, SYS_removexattrat, SYS_file_setattr}) {
            add(static_cast<std::uint32_t>(number), {}, refuse(ENOSYS));
        }
        add(SYS_ioctl, {equals(1, FS_IOC_SETFLAGS)}, refuse(EOPNOTSUPP));
        add(SYS_ioctl, {equals(1, FS_IOC_FSSETXATTR)}, refuse(EOPNOTSUPP));
        add(SYS_ioctl, {equals(1, FS_IOC_SETVERSION)}, refuse(EOPNOTSUPP));
        constexpr std::uint64_t enable_verity = 0x40806685, set_encryption_policy = 0x800c6613;
        add(SYS_ioctl, {equals(1, enable_verity)}, refuse(EOPNOTSUPP));
        add(SYS_ioctl, {equals(1, set_encryption_policy)}, refuse(EOPNOTSUPP));
    }

    const Plan& plan_;
    FilterSpec spec_;
};

bool is_trapped(const FilterSpec& spec, std::uint32_t number) {
    for (const FilterRule& rule : spec.rules) {
        if (rule.call == number && rule.then.kind == Disposition::Kind::trap) return true;
    }
    return false;
}

}  // namespace

FilterSpec filter_spec(const Plan& plan) { return Builder(plan).build(); }

std::vector<TrappedCall> trapped_calls(const Plan& plan) {
    const FilterSpec spec = filter_spec(plan);
    std::vector<TrappedCall> calls;
    for (const CallEntry& entry : call_table()) {
        if (!is_trapped(spec, entry.number)) continue;
        TrappedCall call{entry.name, entry.operations & plan.trapped, {}};
        for (int index = 0; index < rules::operation_count; ++index) {
            const auto operation = static_cast<Operation>(index);
            if (!call.operations.contains(operation)) continue;
            if (const auto* contest = plan.contest(operation)) {
                for (const std::string& id : contest->because) {
                    if (std::find(call.because.begin(), call.because.end(), id) == call.because.end()) {
                        call.because.push_back(id);
                    }
                }
            }
        }
        if (entry.scope == Scope::stranger) call.because.emplace_back("processes outside the run");
        calls.push_back(std::move(call));
    }
    return calls;
}

std::vector<ClosedCall> closed_calls() {
    std::vector<ClosedCall> calls;
    for (const Closed& call : closed) calls.push_back({call.name, call.error, call.why});
    return calls;
}

}  // namespace callgate::calls
