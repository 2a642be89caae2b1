#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsverity.h>
#include <linux/msdos_fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>

#include "rules/plan/plan.hpp"
#include "supervisor/enforce/argument_tests.hpp"
#include "supervisor/enforce/call_classes.hpp"

namespace callgate::enforce {

namespace {

constexpr std::uint64_t new_time_namespace = 0x80;
constexpr std::uint64_t new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                         CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | new_time_namespace;

// Missing from the headers of the C library.
constexpr std::uint64_t linux_console = 0x541c;         // TIOCLINUX
constexpr std::uint64_t new_userfaultfd = 0xaa00;       // USERFAULTFD_IOC_NEW
constexpr std::uint64_t ext4_set_version = 0x40086604;  // EXT4_IOC_SETVERSION
constexpr std::uint64_t ocfs2_reflink = 0x40186f04;     // OCFS2_IOC_REFLINK
// BCH_IOCTL_SUBVOLUME_CREATE, the same with _v2, and BCHFS_IOC_REINHERIT_ATTRS. The number after each of the
// former removes a subvolume.
constexpr std::uint64_t bcachefs_subvolume = 0x4020bc10, bcachefs_subvolume_2 = 0x4030bc1d,
                        bcachefs_inherit = 0x8008bc40;
constexpr std::uint64_t ipv6_options_address_form = 1, ipv6_old_routing = 5, ipv6_old_options = 6,
                        ipv6_flow_labels = 32, ipv6_routing = 57;
constexpr std::uint64_t ip_options = 4;
constexpr std::uint64_t bind_to_index = 62;        // SO_BINDTOIFINDEX
constexpr std::uint64_t set_owner_in_memory = 15;  // F_SETOWN_EX
// F_SETLEASE, and F_SETDELEG of Linux 6.19, which differs in one bit.
constexpr std::uint64_t set_lease = 1024, or_delegation = 16;

// Personalities that gdb, setarch and old binaries use.
constexpr std::uint64_t harmless_personality = std::uint64_t{PER_LINUX32} | UNAME26 | ADDR_NO_RANDOMIZE |
                                               ADDR_COMPAT_LAYOUT | ADDR_LIMIT_32BIT | ADDR_LIMIT_3GB;
constexpr std::uint64_t ask_personality = 0xffffffff;

constexpr std::uint64_t low_word = 0xffffffff;
// The kernel itself answers EPERM to all of these without CAP_NET_ADMIN. But a socket of the room
// (names/room.hpp) lies in a network namespace that the run's own user owns, which counts as that capability
// there.
constexpr std::string_view interfaces = "changes interfaces or routes, which the room's sockets could";
constexpr std::string_view firewall = "changes firewall or encryption, which the room's sockets could";

constexpr Refusal one(std::string_view call, std::string_view what, int error, std::string_view why,
                      ArgumentTest test, const RefusedKind* refused, When when = When::always) {
    return {call, what, error, why, {test}, 1, when, call_number(call), refused};
}
constexpr Refusal two(std::string_view call, std::string_view what, int error, std::string_view why,
                      ArgumentTest first, ArgumentTest second, const RefusedKind* refused) {
    return {call, what, error, why, {first, second}, 2, When::always, call_number(call), refused};
}
constexpr Refusal whole(std::string_view call, int error, std::string_view why, When when,
                        const RefusedKind* refused = nullptr) {
    return {call, "whatever the arguments", error, why, {}, 0, when, call_number(call), refused};
}
constexpr Refusal request(std::string_view what, std::uint64_t number, int error, std::string_view why,
                          const RefusedKind* refused, When when = When::always) {
    return one("ioctl", what, error, why, equals(1, number), refused, when);
}
constexpr Refusal subvolume(std::string_view what, std::uint64_t number) {
    return request(what, number, EPERM, "creates or removes names outside the mediated calls",
                   &refused::subvolumes);
}
constexpr Refusal attribute(std::string_view what, std::uint64_t number) {
    return request(what, number, EOPNOTSUPP,
                   "changes a file through a descriptor opened for reading; not mediated",
                   &refused::attributes, When::metadata_limited);
}
constexpr Refusal routing(std::string_view what, std::uint64_t level, std::uint64_t option) {
    return two("setsockopt", what, EPERM, "sends elsewhere than to the address that was decided",
               equals(1, level), equals(2, option), &refused::routes);
}

/// An option and the one after it.
constexpr Refusal device(std::string_view what, std::uint64_t option) {
    Refusal made = two("setsockopt", what, EPERM,
                       "connects elsewhere than to this host; programs went without before Linux 5.7",
                       equals(1, SOL_SOCKET), equals(2, option), &refused::routes);
    made.when = When::run_servers;
    return made;
}

constexpr Refusal administering(std::string_view what, std::uint64_t level, std::uint64_t option) {
    return two("setsockopt", what, EPERM, firewall, equals(1, level), equals(2, option, ~1ULL & low_word),
               &refused::interfaces);
}
/// `varying`: bits of the request that do not count.
constexpr Refusal administering(std::string_view what, std::uint64_t number, std::uint64_t varying,
                                std::string_view why) {
    return one("ioctl", what, EPERM, why, equals(1, number, low_word & ~varying), &refused::interfaces);
}

constexpr Refusal fast_open(std::string_view call, std::uint8_t flags) {
    return one(call, "MSG_FASTOPEN", EOPNOTSUPP, "connects without connect; programs fall back to it",
               has(flags, MSG_FASTOPEN), nullptr);
}

constexpr std::string_view types_for_user = "types into the user's terminal";
constexpr std::string_view keys = "locks and unlocks files for all users";
constexpr std::string_view owner_in_memory =
    "names the receiver of a file's signals in memory; programs fall back to F_SETOWN";
constexpr std::string_view of_agent =
    "a tool could act in the agent's place; both are in one Landlock domain";
constexpr std::string_view mark =
    "a limit that the kernel has not enforced since 2.4: callgate marks the processes of nested runs by it";
constexpr std::string_view namespaces = "names must mean the same to caller and supervisor";

constexpr Refusal all[] = {
    // The low byte of clone's flags is the signal at exit.
    one("clone", "new namespaces", EPERM, namespaces, has(0, new_namespaces & ~new_time_namespace),
        &refused::namespaces),
    one("unshare", "new namespaces", EPERM, namespaces, has(0, new_namespaces), &refused::namespaces),

    two("seccomp", "SECCOMP_FILTER_FLAG_NEW_LISTENER", EBUSY,
        "a second listener could answer notified calls after this one is closed",
        equals(0, SECCOMP_SET_MODE_FILTER), has(1, SECCOMP_FILTER_FLAG_NEW_LISTENER), &refused::listeners),
    two("prlimit64", "RLIMIT_LOCKS", EPERM, mark, equals(1, RLIMIT_LOCKS), given(2), &refused::lock_limits),
    one("setrlimit", "RLIMIT_LOCKS", EPERM, mark, equals(0, RLIMIT_LOCKS), &refused::lock_limits),
    one("prctl", "PR_SET_MM", EPERM, "changes the program and arguments that /proc shows for the process",
        equals(0, PR_SET_MM), &refused::shown_program),
    two("personality", "READ_IMPLIES_EXEC, MMAP_PAGE_ZERO and other systems' personalities", EPERM,
        "disables memory protections", has(0, 0xffffffff & ~harmless_personality),
        differs(0, ask_personality), &refused::personalities),

    request("TIOCSTI", TIOCSTI, EPERM, types_for_user, &refused::terminal_input),
    // Midnight Commander asks by it whether Shift is held.
    request("TIOCLINUX", linux_console, EPERM, types_for_user, &refused::console),
    request("TIOCSETD", TIOCSETD, EPERM, "changes what a terminal does with what is typed",
            &refused::terminal_input),
    request("USERFAULTFD_IOC_NEW", new_userfaultfd, EPERM,
            "could delay callgate while it reads a page of such memory", &refused::userfaultfd),
    request("FS_IOC_ADD_ENCRYPTION_KEY", FS_IOC_ADD_ENCRYPTION_KEY, EOPNOTSUPP, keys,
            &refused::directory_keys),
    request("FS_IOC_REMOVE_ENCRYPTION_KEY", FS_IOC_REMOVE_ENCRYPTION_KEY, EOPNOTSUPP, keys,
            &refused::directory_keys),
    // SIOCETHTOOL stays: programs read link speeds by it, and its command lies in memory.
    administering("SIOCGSKNS", 0x894c, 0, "hands out the network namespace of the room's sockets"),
    administering("SIOCADDRT", 0x890b, 0, interfaces),
    administering("SIOCDELRT", 0x890c, 0, interfaces),
    administering("SIOCSIFFLAGS and SIOCSIFADDR", 0x8914, 2, interfaces),
    administering("SIOCSIFDSTADDR to SIOCSIFMETRIC", 0x8918, 6, interfaces),
    administering("SIOCSIFMTU", 0x8922, 0, interfaces),
    administering("SIOCSIFNAME", 0x8923, 0, interfaces),
    administering("SIOCSIFHWADDR and SIOCSIFENCAP", 0x8924, 2, interfaces),
    administering("SIOCSIFSLAVE and SIOCADDMULTI", 0x8930, 1, interfaces),
    administering("SIOCDELMULTI", 0x8932, 0, interfaces),
    administering("SIOCSIFPFLAGS and SIOCDIFADDR", 0x8934, 2, interfaces),
    administering("SIOCSIFHWBROADCAST", 0x8937, 0, interfaces),
    administering("SIOCGIFBR and SIOCSIFBR", 0x8940, 1, interfaces),
    administering("SIOCSIFTXQLEN", 0x8943, 0, interfaces),
    administering("SIOCSMIIREG", 0x8949, 0, interfaces),
    administering("SIOCWANDEV", 0x894a, 0, interfaces),
    administering("SIOCDARP and SIOCSARP", 0x8951, 6, interfaces),
    administering("SIOCDRARP and SIOCSRARP", 0x8960, 2, interfaces),
    administering("SIOCSIFMAP", 0x8971, 0, interfaces),
    administering("SIOCADDDLCI to SIOCSIFVLAN", 0x8980, 3, interfaces),
    administering("SIOCBONDENSLAVE and SIOCBONDSETHWADDR", 0x8990, 2, interfaces),
    administering("SIOCBONDRELEASE and SIOCBONDCHANGEACTIVE", 0x8991, 4, interfaces),
    administering("SIOCBRADDBR to SIOCBRDELIF", 0x89a0, 3, interfaces),
    administering("SIOCSHWTSTAMP", 0x89b0, 0, interfaces),
    administering("SIOCDEVPRIVATE", 0x89f0, 0xf, interfaces),
    subvolume("BTRFS_IOC_SNAP_CREATE", BTRFS_IOC_SNAP_CREATE),
    subvolume("BTRFS_IOC_SNAP_CREATE_V2", BTRFS_IOC_SNAP_CREATE_V2),
    subvolume("BTRFS_IOC_SNAP_DESTROY", BTRFS_IOC_SNAP_DESTROY),
    subvolume("BTRFS_IOC_SNAP_DESTROY_V2", BTRFS_IOC_SNAP_DESTROY_V2),
    subvolume("BTRFS_IOC_SUBVOL_CREATE", BTRFS_IOC_SUBVOL_CREATE),
    subvolume("BTRFS_IOC_SUBVOL_CREATE_V2", BTRFS_IOC_SUBVOL_CREATE_V2),
    subvolume("BCH_IOCTL_SUBVOLUME_CREATE", bcachefs_subvolume),
    subvolume("BCH_IOCTL_SUBVOLUME_DESTROY", bcachefs_subvolume + 1),
    subvolume("BCH_IOCTL_SUBVOLUME_CREATE_v2", bcachefs_subvolume_2),
    subvolume("BCH_IOCTL_SUBVOLUME_DESTROY_v2", bcachefs_subvolume_2 + 1),
    subvolume("OCFS2_IOC_REFLINK", ocfs2_reflink),
    attribute("FS_IOC_SETVERSION", FS_IOC_SETVERSION),
    attribute("EXT4_IOC_SETVERSION", ext4_set_version),
    attribute("FS_IOC_ENABLE_VERITY", FS_IOC_ENABLE_VERITY),
    attribute("FS_IOC_SET_ENCRYPTION_POLICY", FS_IOC_SET_ENCRYPTION_POLICY),
    attribute("FAT_IOCTL_SET_ATTRIBUTES", FAT_IOCTL_SET_ATTRIBUTES),
    attribute("BTRFS_IOC_SUBVOL_SETFLAGS", BTRFS_IOC_SUBVOL_SETFLAGS),
    attribute("BTRFS_IOC_SET_RECEIVED_SUBVOL", BTRFS_IOC_SET_RECEIVED_SUBVOL),
    attribute("BCHFS_IOC_REINHERIT_ATTRS", bcachefs_inherit),

    fast_open("sendto", 3),
    fast_open("sendmsg", 2),
    fast_open("sendmmsg", 3),
    routing("IPV6_ADDRFORM", IPPROTO_IPV6, ipv6_options_address_form),
    routing("IPV6_2292RTHDR", IPPROTO_IPV6, ipv6_old_routing),
    routing("IPV6_2292PKTOPTIONS", IPPROTO_IPV6, ipv6_old_options),
    routing("IPV6_FLOWLABEL_MGR", IPPROTO_IPV6, ipv6_flow_labels),  // a label may carry a routing header
    routing("IPV6_RTHDR", IPPROTO_IPV6, ipv6_routing),
    routing("IP_OPTIONS", IPPROTO_IP, ip_options),
    device("SO_BINDTODEVICE", SO_BINDTODEVICE),
    device("SO_BINDTOIFINDEX", bind_to_index),

    administering("IPT_SO_SET", IPPROTO_IP, 64),
    administering("ARPT_SO_SET", IPPROTO_IP, 96),
    administering("EBT_SO_SET", IPPROTO_IP, 128),
    two("setsockopt", "IP_VS_SO_SET", EPERM, firewall, equals(1, IPPROTO_IP),
        equals(2, 1152, low_word & ~0xfULL), &refused::interfaces),
    administering("IP6T_SO_SET", IPPROTO_IPV6, 64),
    administering("IP_XFRM_POLICY", IPPROTO_IP, 16),
    administering("IPV6_XFRM_POLICY", IPPROTO_IPV6, 34),

    one("fcntl", "F_SETLEASE and F_SETDELEG", EINVAL,
        "delays opens of other processes, also of a file that the run may only read",
        equals(1, set_lease, low_word & ~or_delegation), &refused::leases),
    one("fcntl", "F_SETOWN_EX", EINVAL, owner_in_memory, equals(1, set_owner_in_memory), nullptr,
        When::signals_not_held),
    request("FIOSETOWN", FIOSETOWN, EPERM, owner_in_memory, &refused::signal_owners, When::signals_not_held),
    request("SIOCSPGRP", SIOCSPGRP, EPERM, owner_in_memory, &refused::signal_owners, When::signals_not_held),
    whole("pidfd_send_signal", ENOSYS, "callgate decides kill instead, for processes outside the run",
          When::signals_not_held),
    whole("ptrace", EPERM, of_agent, When::parties, &refused::tracing),
    whole("process_vm_readv", EPERM, of_agent, When::parties, &refused::tracing),
    whole("process_vm_writev", EPERM, of_agent, When::parties, &refused::tracing),
    whole("pidfd_getfd", EPERM, of_agent, When::parties, &refused::tracing),
};

}  // namespace

bool Refusal::applies(const rules::Plan& plan) const {
    switch (when) {
        case When::always:
            return true;
        case When::metadata_limited:
            return plan.notified.contains(rules::Operation::metadata);
        case When::signals_not_held:
            return !plan.signals_held || plan.parties;
        case When::parties:
            return plan.parties;
        case When::run_servers:
            return plan.run_servers;
    }
    return true;
}

std::span<const Refusal> refusals() { return all; }

}  // namespace callgate::enforce
