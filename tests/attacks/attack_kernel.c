/* Calls of the kernel that an armed process must not have.
 *
 *   attack_kernel MODE
 *
 * Exit 0: the call did its work; 1: refused; 77: this kernel has no such thing. Nothing here changes the machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

static int refused(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return errno == ENOSYS || errno == EPROTONOSUPPORT || errno == EAFNOSUPPORT || errno == ESOCKTNOSUPPORT ? 77 : 1;
}
static int done(long result, const char *what) { return result < 0 ? refused(what) : 0; }

static int call_keyctl(void) { return done(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1), "keyctl"); }
static int call_add_key(void) { return done(syscall(SYS_add_key, "user", "callgate-test", "x", 1, KEY_SPEC_PROCESS_KEYRING), "add_key"); }
static int call_request_key(void) {
    long result = syscall(SYS_request_key, "user", "callgate-test-absent", NULL, 0);
    return result >= 0 || errno == ENOKEY ? 0 : refused("request_key");
}
static int call_bpf(void) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_type = BPF_MAP_TYPE_ARRAY;
    attributes.key_size = 4, attributes.value_size = 4, attributes.max_entries = 1;
    return done(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes), "bpf");
}
static int call_perf(void) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.size = sizeof attributes;
    attributes.config = PERF_COUNT_SW_TASK_CLOCK;
    attributes.exclude_kernel = 1, attributes.exclude_hv = 1;
    return done(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0), "perf_event_open");
}
static int call_userfaultfd(void) { return done(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */), "userfaultfd"); }
static int call_userfaultfd_device(void) { return done(open("/dev/userfaultfd", O_RDWR), "/dev/userfaultfd"); }
static int call_ring(void) {
    char parameters[120];
    memset(parameters, 0, sizeof parameters);
    return done(syscall(SYS_io_uring_setup, 4, parameters), "io_uring_setup");
}

static struct sock_filter allow_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog program = {1, allow_all};
static void no_new_privileges(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

static int call_listener(void) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program), "seccomp listener");
}
static int call_listener_more_flags(void) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | 32, &program), "seccomp listener");
}
static int call_listener_high_bits(void) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER | (1L << 40), SECCOMP_FILTER_FLAG_NEW_LISTENER | (1L << 40), &program), "seccomp listener");
}
/* benign: a filter of one's own, as browsers and container tools set */
static int call_filter(void) {
    no_new_privileges();
    return done(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp filter");
}
static int call_filter_prctl(void) {
    no_new_privileges();
    return done(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "prctl filter");
}

static int call_tiocsti(void) {
    char byte = '#';
    int fd = open("/dev/tty", O_RDWR);
    if (fd < 0) return refused("/dev/tty");
    return done(syscall(SYS_ioctl, fd, 0x5412L, &byte), "TIOCSTI");
}
static int call_tiocsti_stdin(void) {
    char byte = '#';
    return done(syscall(SYS_ioctl, 0, 0x5412L, &byte), "TIOCSTI");
}
static int call_tiocsti_high_bits(void) {
    char byte = '#';
    return done(syscall(SYS_ioctl, 0, 0x5412L | (1L << 32), &byte), "TIOCSTI");
}

static int made(int family, int type, int protocol, const char *what) { return done(socket(family, type, protocol), what); }
static int call_socket_mptcp(void) { return made(AF_INET, SOCK_STREAM, 262, "MPTCP"); }
static int call_socket_mptcp6(void) { return made(AF_INET6, SOCK_STREAM, 262, "MPTCP"); }
static int call_socket_sctp(void) { return made(AF_INET, SOCK_STREAM, 132, "SCTP"); }
static int call_socket_udplite(void) { return made(AF_INET, SOCK_DGRAM, 136, "UDP-Lite"); }
static int call_socket_udp(void) { return made(AF_INET, SOCK_DGRAM, 0, "UDP"); }
static int call_socket_udp6(void) { return made(AF_INET6, SOCK_DGRAM, 17, "UDP"); }
static int call_socket_udp_high_bits(void) { return done(syscall(SYS_socket, AF_INET | (1L << 32), SOCK_DGRAM | (1L << 32), 0L), "UDP"); }
static int call_socket_udp_flags(void) { return made(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, "UDP"); }
static int call_socket_raw(void) { return made(AF_INET, SOCK_RAW, 1, "raw"); }
static int call_socket_ping(void) { return made(AF_INET, SOCK_DGRAM, 1, "ping"); }
static int call_socket_packet(void) { return made(AF_PACKET, SOCK_RAW, 0, "packet"); }
static int call_socket_vsock(void) { return made(AF_VSOCK, SOCK_STREAM, 0, "vsock"); }
static int call_socket_xdp(void) { return made(44, SOCK_RAW, 0, "XDP"); }
static int call_socket_alg(void) { return made(38, SOCK_SEQPACKET, 0, "AF_ALG"); }
static int call_socket_tipc(void) { return made(30, SOCK_SEQPACKET, 0, "TIPC"); }
static int call_socket_bluetooth(void) { return made(31, SOCK_RAW, 1, "Bluetooth"); }
static int call_socket_uevent(void) { return made(AF_NETLINK, SOCK_RAW, 15, "netlink uevent"); }
static int call_socket_audit(void) { return made(AF_NETLINK, SOCK_RAW, 9, "netlink audit"); }
static int call_socket_netfilter(void) { return made(AF_NETLINK, SOCK_RAW, 12, "netlink netfilter"); }
static int call_socket_generic(void) { return made(AF_NETLINK, SOCK_RAW, 16, "netlink generic"); }
static int call_socket_unix_datagram(void) { return made(AF_UNIX, SOCK_DGRAM, 0, "unix datagram"); }
static int call_socket_unix_raw(void) { return made(AF_UNIX, SOCK_RAW, 0, "unix raw"); }
static int call_socketpair_datagram(void) {
    int pair[2];
    return done(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
}
static int call_socketpair(void) {
    int pair[2];
    return done(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
}
static int call_socket_tcp(void) { return made(AF_INET, SOCK_STREAM, 0, "TCP"); }
static int call_socket_route(void) { return made(AF_NETLINK, SOCK_RAW, 0, "netlink route"); }

static int call_mount_tmpfs(void) { return done(syscall(SYS_fsopen, "tmpfs", 0), "fsopen"); }
static int call_unshare_user(void) { return done(syscall(SYS_unshare, 0x10000000L), "unshare"); }
static int call_unshare_mount(void) { return done(syscall(SYS_unshare, 0x00020000L), "unshare"); }
static int call_setns(void) { return done(syscall(SYS_setns, open("/proc/self/ns/user", O_RDONLY), 0), "setns"); }
static int call_personality(void) { return done(syscall(SYS_personality, 0xffffffffL), "personality"); }
static int call_unknown(void) {
    errno = 0;
    long result = syscall(100000);
    return result == -1 && errno == ENOSYS ? 0 : 1;
}

static const struct {
    const char *name;
    int (*run)(void);
} calls[] = {
#define CALL(one) {#one, call_##one}
    CALL(keyctl), CALL(add_key), CALL(request_key), CALL(bpf), CALL(perf), CALL(userfaultfd), CALL(userfaultfd_device), CALL(ring),
    CALL(listener), CALL(listener_more_flags), CALL(listener_high_bits), CALL(filter), CALL(filter_prctl), CALL(tiocsti),
    CALL(tiocsti_stdin), CALL(tiocsti_high_bits), CALL(socket_mptcp), CALL(socket_mptcp6), CALL(socket_sctp), CALL(socket_udplite),
    CALL(socket_udp), CALL(socket_udp6), CALL(socket_udp_high_bits), CALL(socket_udp_flags), CALL(socket_raw), CALL(socket_ping),
    CALL(socket_packet), CALL(socket_vsock), CALL(socket_xdp), CALL(socket_alg), CALL(socket_tipc), CALL(socket_bluetooth),
    CALL(socket_uevent), CALL(socket_audit), CALL(socket_netfilter), CALL(socket_generic), CALL(socket_unix_datagram),
    CALL(socket_unix_raw), CALL(socketpair_datagram), CALL(socketpair), CALL(socket_tcp), CALL(socket_route), CALL(mount_tmpfs),
    CALL(unshare_user), CALL(unshare_mount), CALL(setns), CALL(personality), CALL(unknown),
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, argv[1]) != 0) continue;
        int result = calls[i].run();
        printf("%s\n", result == 0 ? "WON" : "HELD");
        return result;
    }
    return 2;
}
