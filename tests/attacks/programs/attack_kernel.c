/* Calls of the kernel that an armed process must not have.
 *
 *   attack_kernel MODE
 *
 * A mode reaches its goal when the call did its work, or (ASK) when the kernel went on to look at its
 * arguments, which lead nowhere: nothing here changes the machine. The modes at the end are what programs
 * need of the same kind.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btrfs.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsverity.h>
#include <linux/keyctl.h>
#include <linux/msdos_fs.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

MODE(keyctl) { return done(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1), "keyctl"); }
MODE(add_key) {
    return done(syscall(SYS_add_key, "user", "callgate-test", "x", 1, KEY_SPEC_PROCESS_KEYRING), "add_key");
}
MODE(request_key) {
    long result = syscall(SYS_request_key, "user", "callgate-test-absent", NULL, 0);
    return result >= 0 || errno == ENOKEY ? 0 : refused("request_key");
}
MODE(memfd_secret) { return done((int)syscall(SYS_memfd_secret, 0), "memfd_secret"); }
MODE(memory_file) { return done(memfd_create("name", 0), "memfd_create"); }
MODE(bpf) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_type = BPF_MAP_TYPE_ARRAY;
    attributes.key_size = 4, attributes.value_size = 4, attributes.max_entries = 1;
    return done(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes), "bpf");
}
MODE(perf) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.size = sizeof attributes;
    attributes.config = PERF_COUNT_SW_TASK_CLOCK;
    attributes.exclude_kernel = 1, attributes.exclude_hv = 1;
    return done(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0), "perf_event_open");
}
MODE(userfaultfd) { return done(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */), "userfaultfd"); }
MODE(userfaultfd_device) { return done(open("/dev/userfaultfd", O_RDWR), "/dev/userfaultfd"); }
MODE(ring) {
    char parameters[120];
    memset(parameters, 0, sizeof parameters);
    return done(syscall(SYS_io_uring_setup, 4, parameters), "io_uring_setup");
}

static struct sock_filter allow_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog program = {1, allow_all};
static void no_new_privileges(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

MODE(listener) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program),
                "seccomp listener");
}
MODE(listener_more_flags) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | 32, &program),
                "seccomp listener");
}
MODE(listener_high_bits) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER | (1L << 40),
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | (1L << 40), &program),
                "seccomp listener");
}
/* benign: a filter of one's own, as browsers and container tools set */
MODE(filter) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp filter");
}
MODE(filter_prctl) {
    no_new_privileges();
    return done(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "prctl filter");
}

/* memory that may be read may be executed too */
MODE(executable_data) {
    if (syscall(SYS_personality, (long)READ_IMPLIES_EXEC) < 0) return refused("personality");
    return (personality(0xffffffff) & READ_IMPLIES_EXEC) != 0 ? 0 : REFUSED;
}
/* the first step of changing what /proc says of the program and its arguments */
MODE(other_arguments) {
    unsigned size = 0;
    return done(prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0), "PR_SET_MM");
}

/* when callgate's processes are no more: the listener that answered is closed */
static void wait_for_word(void) {
    char byte;
    printf("ready\n");
    fflush(stdout);
    if (read(0, &byte, 1) < 0) perror("read");
}
MODE(listener_later) {
    wait_for_word();
    return mode_listener();
}
MODE(filter_later) {
    wait_for_word();
    return mode_filter();
}

MODE(tiocsti) {
    char byte = '#';
    int fd = open("/dev/tty", O_RDWR);
    if (fd < 0) return refused("/dev/tty");
    return done(syscall(SYS_ioctl, fd, 0x5412L, &byte), "TIOCSTI");
}
MODE(request_discipline) {
    const int null_discipline = 27;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return refused("a terminal");
    return done(ioctl(master, TIOCSETD, &null_discipline), "TIOCSETD");
}
MODE(tiocsti_stdin) {
    char byte = '#';
    return done(syscall(SYS_ioctl, 0, 0x5412L, &byte), "TIOCSTI");
}
MODE(tiocsti_high_bits) {
    char byte = '#';
    return done(syscall(SYS_ioctl, 0, 0x5412L | (1L << 32), &byte), "TIOCSTI");
}

static int made(int family, int type, int protocol, const char *what) {
    return done(socket(family, type, protocol), what);
}
MODE(socket_mptcp) { return made(AF_INET, SOCK_STREAM, 262, "MPTCP"); }
MODE(socket_mptcp6) { return made(AF_INET6, SOCK_STREAM, 262, "MPTCP"); }
MODE(socket_sctp) { return made(AF_INET, SOCK_STREAM, 132, "SCTP"); }
MODE(socket_udplite) { return made(AF_INET, SOCK_DGRAM, 136, "UDP-Lite"); }
MODE(socket_udp) { return made(AF_INET, SOCK_DGRAM, 0, "UDP"); }
MODE(socket_udp6) { return made(AF_INET6, SOCK_DGRAM, 17, "UDP"); }
MODE(socket_udp_high_bits) {
    return done(syscall(SYS_socket, AF_INET | (1L << 32), SOCK_DGRAM | (1L << 32), 0L), "UDP");
}
MODE(socket_udp_flags) { return made(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, "UDP"); }
MODE(socket_raw) { return made(AF_INET, SOCK_RAW, 1, "raw"); }
MODE(socket_ping) { return made(AF_INET, SOCK_DGRAM, 1, "ping"); }
MODE(socket_packet) { return made(AF_PACKET, SOCK_RAW, 0, "packet"); }
MODE(socket_vsock) { return made(AF_VSOCK, SOCK_STREAM, 0, "vsock"); }
MODE(socket_xdp) { return made(44, SOCK_RAW, 0, "XDP"); }
MODE(socket_alg) { return made(38, SOCK_SEQPACKET, 0, "AF_ALG"); }
MODE(socket_tipc) { return made(30, SOCK_SEQPACKET, 0, "TIPC"); }
MODE(socket_bluetooth) { return made(31, SOCK_RAW, 1, "Bluetooth"); }
MODE(socket_uevent) { return made(AF_NETLINK, SOCK_RAW, 15, "netlink uevent"); }
MODE(socket_audit) { return made(AF_NETLINK, SOCK_RAW, 9, "netlink audit"); }
MODE(socket_netfilter) { return made(AF_NETLINK, SOCK_RAW, 12, "netlink netfilter"); }
MODE(socket_generic) { return made(AF_NETLINK, SOCK_RAW, 16, "netlink generic"); }
MODE(socket_usersock) { return made(AF_NETLINK, SOCK_RAW, 2, "netlink usersock"); }
MODE(socket_unix_datagram) { return made(AF_UNIX, SOCK_DGRAM, 0, "unix datagram"); }
MODE(socket_unix_raw) { return made(AF_UNIX, SOCK_RAW, 0, "unix raw"); }
MODE(socketpair) {
    int pair[2];
    return done(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
}
MODE(socket_tcp) { return made(AF_INET, SOCK_STREAM, 0, "TCP"); }
MODE(socket_route) { return made(AF_NETLINK, SOCK_RAW, 0, "netlink route"); }

MODE(mount_tmpfs) { return done(syscall(SYS_fsopen, "tmpfs", 0), "fsopen"); }
MODE(unshare_user) { return done(syscall(SYS_unshare, (long)CLONE_NEWUSER), "unshare"); }
MODE(unshare_mount) { return done(syscall(SYS_unshare, (long)CLONE_NEWNS), "unshare"); }
MODE(unshare_net) { return done(syscall(SYS_unshare, (long)(CLONE_NEWUSER | CLONE_NEWNET)), "unshare"); }
MODE(unshare_ipc) { return done(syscall(SYS_unshare, (long)CLONE_NEWIPC), "unshare"); }
MODE(unshare_time) { return done(syscall(SYS_unshare, 0x80L), "unshare"); }
MODE(clone_user) {
    long child = syscall(SYS_clone, (long)(CLONE_NEWUSER | SIGCHLD) | (1L << 40), 0L, 0L, 0L, 0L);
    if (child == 0) _exit(0);
    if (child > 0) waitpid((pid_t)child, NULL, 0);
    return done(child, "clone");
}
MODE(setns) { return done(syscall(SYS_setns, open("/proc/self/ns/user", O_RDONLY), 0), "setns"); }
MODE(setns_mount) { return done(syscall(SYS_setns, open("/proc/self/ns/mnt", O_RDONLY), 0), "setns"); }
MODE(fanotify) { return done(syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY), "fanotify_init"); }
MODE(fanotify_permission) {
    return done(syscall(SYS_fanotify_init, 0x4 /* FAN_CLASS_CONTENT */, O_RDONLY), "fanotify_init");
}
MODE(kernel_log) {
    char text[64];
    return done(syscall(SYS_syslog, 3, text, sizeof text), "syslog");
}
#if defined(__x86_64__)
MODE(iopl) { return done(syscall(SYS_iopl, 3), "iopl"); }
MODE(ioperm) { return done(syscall(SYS_ioperm, 0x80, 1, 1), "ioperm"); }
#endif

/* Administration of the machine: reached where the kernel says anything but that it may not be. */
static int asked(long result, const char *what) {
    if (result >= 0 || (errno != EPERM && errno != ENOSYS && errno != EACCES)) return 0;
    return refused(what);
}
#define ASK(name, ...) \
    MODE(name) { return asked(syscall(__VA_ARGS__), #name); }
static const struct timespec no_time = {-1, -1};
static const char nowhere[] = "/callgate/leads/nowhere";
ASK(reboot, SYS_reboot, 0, 0, 0, 0)
ASK(kexec_load, SYS_kexec_load, 0, 0, NULL, 0xffffL)
ASK(kexec_file_load, SYS_kexec_file_load, -1, -1, 0, NULL, ~0L)
ASK(init_module, SYS_init_module, NULL, 0, "")
ASK(finit_module, SYS_finit_module, -1, "", 0)
ASK(delete_module, SYS_delete_module, "callgate_nothing", 0)
ASK(quotactl, SYS_quotactl, 0x80000700L, nowhere, 0, NULL)
ASK(quotactl_fd, SYS_quotactl_fd, -1, 0x80000700L, 0, NULL)
ASK(swapon, SYS_swapon, nowhere, 0)
ASK(swapoff, SYS_swapoff, nowhere)
ASK(clock_settime, SYS_clock_settime, 0, &no_time)
ASK(settimeofday, SYS_settimeofday, &no_time, NULL)
ASK(acct, SYS_acct, nowhere)
ASK(sethostname, SYS_sethostname, "", -1)
ASK(setdomainname, SYS_setdomainname, "", -1)
ASK(mount, SYS_mount, "none", nowhere, "tmpfs", 0, NULL)
ASK(umount, SYS_umount2, nowhere, 0)
ASK(pivot_root, SYS_pivot_root, nowhere, nowhere)
ASK(chroot, SYS_chroot, nowhere)
ASK(move_mount, SYS_move_mount, -1, "x", -1, "x", 0)
ASK(open_tree, SYS_open_tree, -1, "x", 0)
ASK(open_tree_attr, 467, -1, "x", 0, NULL, 0)
ASK(fsconfig, SYS_fsconfig, -1, 0, NULL, NULL, 0)
ASK(fsmount, SYS_fsmount, -1, 0, 0)
ASK(fspick, SYS_fspick, -1, "x", 0)
ASK(mount_setattr, SYS_mount_setattr, -1, "x", 0, NULL, 0)
ASK(setns_nothing, SYS_setns, -1, 0)
ASK(open_by_handle, SYS_open_by_handle_at, -1, NULL, 0)

/* Arguments that are refused: reached where the kernel itself answers, as it does to who may make the call. */
static int answered(long result, const char *what) {
    if (result >= 0 || (errno != EPERM && errno != EACCES && errno != EOPNOTSUPP)) return 0;
    return refused(what);
}
#define OPTION(name, level, option) \
    MODE(name) { return answered(setsockopt(socket(AF_INET6, SOCK_STREAM, 0), level, option, NULL, 0), #name); }
OPTION(option_addrform, IPPROTO_IPV6, 1)
OPTION(option_old_routing, IPPROTO_IPV6, 5)
OPTION(option_old_options, IPPROTO_IPV6, 6)
OPTION(option_flow_label, IPPROTO_IPV6, 32)
OPTION(option_routing, IPPROTO_IPV6, 57)
/* A pipe has none of these: the kernel says so (ENOTTY). */
static int asked_of_a_pipe(unsigned long request, const char *what) {
    int ends[2];
    if (pipe(ends) != 0) return refused("pipe");
    return answered(ioctl(ends[0], request, NULL), what);
}
#define REQUEST(name, number) \
    MODE(name) { return asked_of_a_pipe(number, #name); }
REQUEST(request_console, 0x541c)
REQUEST(request_userfaultfd, 0xaa00)
REQUEST(request_add_key, FS_IOC_ADD_ENCRYPTION_KEY)
REQUEST(request_remove_key, FS_IOC_REMOVE_ENCRYPTION_KEY)
REQUEST(request_snapshot, BTRFS_IOC_SNAP_CREATE)
REQUEST(request_snapshot2, BTRFS_IOC_SNAP_CREATE_V2)
REQUEST(request_destroy, BTRFS_IOC_SNAP_DESTROY)
REQUEST(request_destroy2, BTRFS_IOC_SNAP_DESTROY_V2)
REQUEST(request_subvolume, BTRFS_IOC_SUBVOL_CREATE)
REQUEST(request_subvolume2, BTRFS_IOC_SUBVOL_CREATE_V2)
REQUEST(request_version, FS_IOC_SETVERSION)
REQUEST(request_ext4_version, 0x40086604)
REQUEST(request_verity, FS_IOC_ENABLE_VERITY)
REQUEST(request_policy, FS_IOC_SET_ENCRYPTION_POLICY)
REQUEST(request_fat, FAT_IOCTL_SET_ATTRIBUTES)
REQUEST(request_subvolume_flags, BTRFS_IOC_SUBVOL_SETFLAGS)
REQUEST(request_received, BTRFS_IOC_SET_RECEIVED_SUBVOL)
/* Of bcachefs and OCFS2, whose headers are mostly not there. */
REQUEST(request_bcachefs, 0x4020bc10)
REQUEST(request_bcachefs_destroy, 0x4020bc11)
REQUEST(request_bcachefs2, 0x4030bc1d)
REQUEST(request_bcachefs_destroy2, 0x4030bc1e)
REQUEST(request_bcachefs_inherit, 0x8008bc40)
REQUEST(request_reflink, 0x40186f04)

/* Requests that change interfaces and routes, each where a pipe answers by itself. */
static int any_asked(const unsigned long *requests, size_t count, const char *what) {
    int result = REFUSED;
    for (size_t i = 0; i < count; i++)
        if (asked_of_a_pipe(requests[i], what) == 0) result = 0;
    return result;
}
#define INTERFACE(name, ...)                                                                  \
    MODE(interface_##name) {                                                                  \
        static const unsigned long requests[] = {__VA_ARGS__};                                \
        return any_asked(requests, sizeof requests / sizeof requests[0], "interface_" #name); \
    }
INTERFACE(namespace, 0x894c)
INTERFACE(add_route, 0x890b)
INTERFACE(delete_route, 0x890c)
INTERFACE(flags, 0x8914, 0x8916)
INTERFACE(addresses, 0x8918, 0x891a, 0x891c, 0x891e)
INTERFACE(mtu, 0x8922)
INTERFACE(interface_name, 0x8923)
INTERFACE(hardware_address, 0x8924, 0x8926)
INTERFACE(multicast, 0x8930, 0x8931)
INTERFACE(multicast_off, 0x8932)
INTERFACE(private_flags, 0x8934, 0x8936)
INTERFACE(broadcast, 0x8937)
INTERFACE(old_bridge, 0x8940, 0x8941)
INTERFACE(queue, 0x8943)
INTERFACE(phy, 0x8949)
INTERFACE(wan, 0x894a)
INTERFACE(arp, 0x8953, 0x8955)
INTERFACE(rarp, 0x8960, 0x8962)
INTERFACE(map, 0x8971)
INTERFACE(vlan, 0x8980, 0x8981, 0x8982, 0x8983)
INTERFACE(bond, 0x8990, 0x8992)
INTERFACE(bond_release, 0x8991, 0x8995)
INTERFACE(bridge, 0x89a0, 0x89a1, 0x89a2, 0x89a3)
INTERFACE(time_stamp, 0x89b0)
INTERFACE(device, 0x89f0, 0x89ff)
/* Firewall and encryption: an option and its neighbour. */
static int any_option(int level, int first, int second, const char *what) {
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    int one = answered(setsockopt(fd, level, first, NULL, 0), what);
    int other = answered(setsockopt(fd, level, second, NULL, 0), what);
    return one == 0 || other == 0 ? 0 : REFUSED;
}
#define FIREWALL(name, level, first, second) \
    MODE(firewall_##name) { return any_option(level, first, second, "firewall_" #name); }
FIREWALL(ip_tables, IPPROTO_IP, 64, 65)
FIREWALL(arp_tables, IPPROTO_IP, 96, 97)
FIREWALL(bridge_tables, IPPROTO_IP, 128, 129)
FIREWALL(virtual_server, IPPROTO_IP, 1152, 1167)
FIREWALL(ip6_tables, IPPROTO_IPV6, 64, 65)
FIREWALL(policy, IPPROTO_IP, 16, 17)
FIREWALL(policy6, IPPROTO_IPV6, 34, 35)

/* ---- what programs need of the same kind ---- */

/* What programs ask of interfaces and sockets. */
MODE(interface_read) {
    struct ifreq all[16];
    struct ifconf list = {.ifc_len = sizeof all, .ifc_req = all};
    struct ifreq loopback = {.ifr_name = "lo"};
    struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
    struct ifreq speed = {.ifr_name = "lo", .ifr_data = (char *)&link};
    int waiting = 0, urgent = 0, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (ioctl(fd, SIOCGIFCONF, &list) != 0) return refused("SIOCGIFCONF");
    if (ioctl(fd, SIOCGIFFLAGS, &loopback) != 0) return refused("SIOCGIFFLAGS");
    if (ioctl(fd, SIOCGIFADDR, &loopback) != 0) return refused("SIOCGIFADDR");
    if (ioctl(fd, SIOCGIFNETMASK, &loopback) != 0) return refused("SIOCGIFNETMASK");
    if (ioctl(fd, SIOCGIFMTU, &loopback) != 0) return refused("SIOCGIFMTU");
    if (ioctl(fd, SIOCGIFHWADDR, &loopback) != 0) return refused("SIOCGIFHWADDR");
    if (ioctl(fd, SIOCGIFINDEX, &loopback) != 0) return refused("SIOCGIFINDEX");
    if (ioctl(fd, SIOCETHTOOL, &speed) != 0) return refused("SIOCETHTOOL");
    if (ioctl(fd, SIOCATMARK, &urgent) != 0) return refused("SIOCATMARK");
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return done(ioctl(fd, FIONREAD, &waiting), "FIONREAD");
}
MODE(option_usual) {
    const int one = 1, quick = 0x10;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) return refused("SO_REUSEADDR");
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &quick, sizeof quick) != 0) return refused("IPV6_TCLASS");
    return done(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, sizeof one), "IP_RECVERR");
}

/* Says that it holds what makes others wait, and stays until its input ends. */
static int stay(const char *said) {
    char byte;
    printf("%s\n", said);
    fflush(stdout);
    while (read(0, &byte, 1) > 0) continue;
    return 0;
}
static int lease(const char *path, unsigned long command, const void *kind, const char *what) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    signal(SIGIO, SIG_IGN);
    if (fd < 0 || syscall(SYS_fcntl, (long)fd, command, kind) != 0) return refused(what);
    return stay("leased");
}
MODE(lease) { return lease("leased/file", 1024 /* F_SETLEASE */, (void *)F_WRLCK, "F_SETLEASE"); }
MODE(lease_high_bits) {
    return lease("leased/file", 1UL << 32 | 1024, (void *)F_WRLCK, "F_SETLEASE");
}
/* Linux 6.19 has delegations of directories, which delay new names in them. */
MODE(delegation) {
    const struct {
        unsigned flags;
        unsigned short type, pad;
    } read_kind = {0, F_RDLCK, 0};
    return lease("leased", 1040 /* F_SETDELEG */, &read_kind, "F_SETDELEG");
}
MODE(lock) {
    const struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd = open("leased/file", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0) return refused("flock");
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) return refused("F_OFD_SETLK");
    return stay("locked");
}

MODE(pipe_size) {
    int ends[2], size = 0;
    if (pipe(ends) != 0) return refused("pipe");
    return done(ioctl(ends[0], FIONREAD, &size), "FIONREAD");
}
MODE(option_ipv6) {
    const int one = 1;
    return done(setsockopt(socket(AF_INET6, SOCK_STREAM, 0), IPPROTO_IPV6, 26 /* IPV6_V6ONLY */, &one, sizeof one), "IPV6_V6ONLY");
}

MODE(unknown) {
    errno = 0;
    long result = syscall(100000);
    return result == -1 && errno == ENOSYS ? 0 : REFUSED;
}
MODE(terminal_size) {
    struct winsize size;
    return done(ioctl(0, TIOCGWINSZ, &size), "TIOCGWINSZ");
}
MODE(personality) { return done(syscall(SYS_personality, 0xffffffffL), "personality"); }
MODE(fork) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, &status, 0);
    return status == 0 ? 0 : REFUSED;
}
static void *nothing(void *unused) { return unused; }
MODE(thread) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, nothing, NULL);
    return errno != 0 ? refused("pthread_create") : pthread_join(thread, NULL);
}
MODE(unshare_files) { return done(syscall(SYS_unshare, (long)(CLONE_FILES | CLONE_FS)), "unshare"); }
MODE(epoll) { return done(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"); }
MODE(clock) {
    struct timespec now;
    return done(clock_gettime(CLOCK_REALTIME, &now), "clock_gettime");
}
MODE(usage) {
    struct rusage used;
    return done(getrusage(RUSAGE_SELF, &used), "getrusage");
}
MODE(names) {
    struct utsname names;
    return done(uname(&names), "uname");
}
MODE(directory) {
    char path[4096];
    return getcwd(path, sizeof path) != NULL && chdir("/") == 0 ? 0 : refused("getcwd");
}

int main(int argc, char **argv) { return argc > 1 ? run_mode(argv[1]) : 2; }
