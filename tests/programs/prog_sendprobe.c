/* Sends in every way that the kernel answers differently, one line per case: result, errno, signals seen, what arrived.
 *
 * Everything stays inside this process and on loopback; ports are the kernel's choice and never printed. Runs in a writable
 * directory that holds `regular`, `dir`, `link-datagram` (to sock-datagram). Capabilities are dropped first.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"
#include "socket_names.h"

static volatile sig_atomic_t pipes, alarms;
static void on_pipe(int number) { (void)number, pipes++; }
static void on_alarm(int number) { (void)number, alarms++; }

static void row(const char *name, long result) {
    int error = result < 0 ? errno : 0;
    printf("%s %ld errno=%d", name, result, error);
    if (pipes) printf(" SIGPIPE=%d", (int)pipes);
    if (alarms) printf(" SIGALRM=%d", (int)alarms);
    printf("\n");
    fflush(stdout);
    pipes = alarms = 0;
}

static int made(int fd) {
    if (fd < 0) printf("setup failed: errno=%d\n", errno), exit(2);
    return fd;
}

static char *two_pages(void) { /* the second one is missing */
    char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at + 4096, 4096);
    memset(at, 'p', 4096);
    return at;
}

static int receiver(int family) {
    int fd = made(socket(family, SOCK_DGRAM, 0));
    struct sockaddr_in four = v4("127.0.0.1", 0);
    struct sockaddr_in6 six = v6("::1", 0);
    if ((family == AF_INET ? bind(fd, (struct sockaddr *)&four, sizeof four) : bind(fd, (struct sockaddr *)&six, sizeof six)) != 0)
        printf("setup bind: errno=%d\n", errno), exit(2);
    return fd;
}

/* what has arrived, without waiting for more */
static void arrived(const char *name, int fd) {
    char bytes[70000];
    long count = 0, total = 0, got;
    while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) >= 0 && count < 2000) count++, total += got;
    printf("  %s arrived %ld of %ld bytes\n", name, count, total);
    fflush(stdout);
}

static long to(int fd, const void *data, size_t size, long flags, const void *address, long length) {
    return syscall(SYS_sendto, (long)fd, data, size, flags, address, length);
}

static struct msghdr message(const void *address, socklen_t length, struct iovec *data, size_t count) {
    struct msghdr one;
    memset(&one, 0, sizeof one);
    one.msg_name = (void *)(uintptr_t)address;
    one.msg_namelen = length;
    one.msg_iov = data;
    one.msg_iovlen = count;
    return one;
}

static long msg(int fd, const struct msghdr *header, long flags) { return syscall(SYS_sendmsg, (long)fd, header, flags); }

static struct iovec piece(const void *at, size_t size) {
    struct iovec one = {(void *)(uintptr_t)at, size};
    return one;
}

static void bad_arguments(void) {
    int fd = made(socket(AF_INET, SOCK_DGRAM, 0)), here = receiver(AF_INET), folder = open(".", O_RDONLY), path = open(".", O_PATH), ends[2];
    if (pipe(ends) != 0) exit(2);
    struct sockaddr_in where = v4("127.0.0.1", port_of(here));
    const int others[] = {987, -1, folder, ends[1], path};
    const char *names[] = {"closed", "minus one", "directory", "pipe", "opath"};
    char name[96];
    for (size_t i = 0; i < 5; i++) {
        struct iovec data = piece("x", 1);
        struct msghdr header = message(&where, sizeof where, &data, 1);
        struct mmsghdr many = {header, 0};
        snprintf(name, sizeof name, "sendto %s", names[i]);
        row(name, to(others[i], "x", 1, 0, &where, sizeof where));
        snprintf(name, sizeof name, "sendto %s, address faults", names[i]);
        row(name, to(others[i], "x", 1, 0, (void *)8, sizeof where));
        snprintf(name, sizeof name, "sendmsg %s", names[i]);
        row(name, msg(others[i], &header, 0));
        snprintf(name, sizeof name, "sendmsg %s, header faults", names[i]);
        row(name, msg(others[i], (void *)8, 0));
        snprintf(name, sizeof name, "sendmmsg %s", names[i]);
        row(name, syscall(SYS_sendmmsg, (long)others[i], &many, 1, 0));
    }
    row("sendto address faults", to(fd, "x", 1, 0, (void *)8, sizeof where));
    row("sendto length -1", to(fd, "x", 1, 0, &where, -1));
    row("sendto length 129", to(fd, "x", 1, 0, &where, 129));
    row("sendto length 0", to(fd, "x", 1, 0, &where, 0));
    row("sendto payload faults", to(fd, (void *)8, 1, 0, &where, sizeof where));
    row("sendto payload and address fault", to(fd, (void *)8, 1, 0, (void *)8, sizeof where));
    row("sendto kernel payload", to(fd, (void *)0xffff800000000000, 1, 0, &where, sizeof where));
    row("sendto payload faults, port 0", to(fd, (void *)8, 1, 0, &(struct sockaddr_in){.sin_family = AF_INET}, sizeof where));
    char *page = two_pages();
    row("sendto payload into a missing page", to(fd, page + 4000, 200, 0, &where, sizeof where));
    row("sendto payload to the end of the page", to(fd, page + 4000, 96, 0, &where, sizeof where));
    row("sendto compat flag", to(fd, "x", 1, 0x80000000L, &where, sizeof where));
    struct iovec data = piece("x", 1);
    struct msghdr header = message(&where, sizeof where, &data, 1);
    row("sendmsg compat flag", msg(fd, &header, 0x80000000L));
    row("sendmsg compat flag, closed", msg(987, &header, 0x80000000L));
    row("sendmmsg compat flag", syscall(SYS_sendmmsg, (long)fd, &(struct mmsghdr){header, 0}, 1, 0x80000000L));
    row("sendmsg header faults", msg(fd, (void *)8, 0));
    header.msg_namelen = (socklen_t)-1;
    row("sendmsg name length -1", msg(fd, &header, 0));
    header.msg_namelen = 200;
    char big[256];
    memset(big, 0, sizeof big);
    memcpy(big, &where, sizeof where);
    header.msg_name = big;
    row("sendmsg name length 200", msg(fd, &header, 0));
    header.msg_name = NULL;
    row("sendmsg no name, length 200", msg(fd, &header, 0));
    header = message((void *)8, sizeof where, &data, 1);
    row("sendmsg name faults", msg(fd, &header, 0));
    header = message(&where, sizeof where, (void *)8, 1);
    row("sendmsg vector faults", msg(fd, &header, 0));
    header = message(&where, sizeof where, (void *)8, 0);
    row("sendmsg no vector", msg(fd, &header, 0));
    struct iovec *many = calloc(1025, sizeof *many);
    for (int i = 0; i < 1025; i++) many[i] = piece("x", 1);
    header = message(&where, sizeof where, many, 1024);
    row("sendmsg 1024 pieces", msg(fd, &header, 0));
    header.msg_iovlen = 1025;
    row("sendmsg 1025 pieces", msg(fd, &header, 0));
    header.msg_name = (void *)8;
    row("sendmsg 1025 pieces, name faults", msg(fd, &header, 0));
    struct iovec negative[2] = {piece("x", 1), piece("x", (size_t)-1)};
    header = message(&where, sizeof where, negative, 2);
    row("sendmsg negative piece", msg(fd, &header, 0));
    header = message(&where, sizeof where, negative + 1, 1);
    row("sendmsg one negative piece", msg(fd, &header, 0));
    struct iovec gap[3] = {piece("ab", 2), piece((void *)8, 0), piece("cd", 2)};
    header = message(&where, sizeof where, gap, 3);
    row("sendmsg empty piece that faults", msg(fd, &header, 0));
    gap[1].iov_len = 3;
    row("sendmsg middle piece faults", msg(fd, &header, 0));
    header = message(&where, sizeof where, &data, 1);
    header.msg_control = (void *)8;
    header.msg_controllen = 32;
    row("sendmsg control faults", msg(fd, &header, 0));
    header.msg_controllen = 0x80000000UL;
    row("sendmsg control too long for an int", msg(fd, &header, 0));
    header.msg_controllen = 16 << 20;
    row("sendmsg control of 16 MiB", msg(fd, &header, 0));
    arrived("bad arguments", here);
    close(fd), close(here), close(folder), close(path), close(ends[0]), close(ends[1]);
    free(many);
}

static void datagrams(void) {
    int fd = made(socket(AF_INET, SOCK_DGRAM, 0)), here = receiver(AF_INET), other = receiver(AF_INET);
    struct sockaddr_in where = v4("127.0.0.1", port_of(here)), second = v4("127.0.0.1", port_of(other)), odd = where;
    char *bytes = calloc(1, 200000);
    row("udp sendto", to(fd, "abc", 3, 0, &where, sizeof where));
    row("udp sendto nothing", to(fd, "", 0, 0, &where, sizeof where));
    row("udp sendto nothing at a bad place", to(fd, (void *)8, 0, 0, &where, sizeof where));
    row("udp sendto no address", to(fd, "x", 1, 0, NULL, 0));
    row("udp sendto no address, length", to(fd, "x", 1, 0, NULL, 16));
    for (int length = 1; length <= 16; length += 5) {
        char name[64];
        snprintf(name, sizeof name, "udp sendto length %d", length);
        row(name, to(fd, "x", 1, 0, &where, length));
    }
    row("udp sendto length 128", to(fd, "x", 1, 0, memcpy(bytes, &where, sizeof where), 128));
    memset(bytes, 0, sizeof where);
    const int families[] = {AF_UNSPEC, AF_UNIX, AF_INET6, 77};
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        odd.sin_family = (sa_family_t)families[i];
        snprintf(name, sizeof name, "udp sendto family %d", families[i]);
        row(name, to(fd, "x", 1, 0, &odd, sizeof odd));
        snprintf(name, sizeof name, "udp sendto family %d, length 8", families[i]);
        row(name, to(fd, "x", 1, 0, &odd, 8));
        struct sockaddr_in6 six = v6("::1", port_of(here));
        six.sin6_family = (sa_family_t)families[i];
        snprintf(name, sizeof name, "udp sendto family %d, length 28", families[i]);
        if (families[i] != AF_UNSPEC) row(name, to(fd, "x", 1, 0, &six, sizeof six));
    }
    odd = v4("127.0.0.1", 0);
    row("udp sendto port 0", to(fd, "x", 1, 0, &odd, sizeof odd));
    row("udp sendto 65507", to(fd, bytes, 65507, 0, &where, sizeof where));
    arrived("udp", here);
    row("udp sendto 65508", to(fd, bytes, 65508, 0, &where, sizeof where));
    row("udp sendto 65536 to port 0", to(fd, bytes, 65536, 0, &odd, sizeof odd));
    row("udp sendto 200000", to(fd, bytes, 200000, 0, &where, sizeof where));
    row("udp sendto 1 GiB", to(fd, bytes, 1 << 30, 0, &where, sizeof where));
    row("udp sendto -1 bytes", to(fd, bytes, (size_t)-1, 0, &where, sizeof where));
    row("udp MSG_OOB", to(fd, "x", 1, MSG_OOB, &where, sizeof where));
    row("udp MSG_DONTWAIT", to(fd, "x", 1, MSG_DONTWAIT, &where, sizeof where));
    row("udp MSG_DONTROUTE", to(fd, "x", 1, MSG_DONTROUTE, &where, sizeof where));
    row("udp MSG_ZEROCOPY without the option", to(fd, "x", 1, MSG_ZEROCOPY, &where, sizeof where));
    row("udp unknown flags", to(fd, "x", 1, 0x00400000, &where, sizeof where));
    row("udp MSG_MORE", to(fd, "first ", 6, MSG_MORE, &where, sizeof where));
    row("udp MSG_MORE to another", to(fd, "second", 6, 0, &second, sizeof second));
    arrived("corked", here);
    arrived("corked, the other", other);
    odd = v4("255.255.255.255", 9);
    row("udp broadcast without leave", to(fd, "x", 1, 0, &odd, sizeof odd));
    struct sockaddr_in closed = v4("127.0.0.1", port_of(other));
    close(other);
    row("udp to a closed port", to(fd, "x", 1, 0, &closed, sizeof closed));
    row("udp connect", connect(fd, (struct sockaddr *)&where, sizeof where));
    row("udp connected, no address", to(fd, "x", 1, 0, NULL, 0));
    other = receiver(AF_INET);
    second = v4("127.0.0.1", port_of(other));
    row("udp connected, redirected", to(fd, "xy", 2, 0, &second, sizeof second));
    arrived("connected", here);
    arrived("redirected", other);
    odd = where, odd.sin_family = AF_UNSPEC;
    row("udp connected, AF_UNSPEC", to(fd, "x", 1, 0, &odd, sizeof odd));
    row("udp shutdown", shutdown(fd, SHUT_WR));
    row("udp after shutdown", to(fd, "x", 1, 0, &where, sizeof where));
    row("udp after shutdown, connected", to(fd, "x", 1, 0, NULL, 0));
    close(fd), close(here), close(other);
    free(bytes);
}

static void datagrams6(void) {
    int fd = made(socket(AF_INET6, SOCK_DGRAM, 0)), here = receiver(AF_INET6), four = receiver(AF_INET), strict = made(socket(AF_INET6, SOCK_DGRAM, 0));
    int on = 1;
    setsockopt(strict, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    struct sockaddr_in6 where = v6("::1", port_of(here)), mapped = v6("::ffff:127.0.0.1", port_of(four)), odd = where;
    struct sockaddr_in plain = v4("127.0.0.1", port_of(four));
    row("udp6 sendto", to(fd, "abc", 3, 0, &where, sizeof where));
    row("udp6 mapped", to(fd, "abc", 3, 0, &mapped, sizeof mapped));
    row("udp6 mapped, v6 only", to(strict, "abc", 3, 0, &mapped, sizeof mapped));
    row("udp6 inet address", to(fd, "abc", 3, 0, &plain, sizeof plain));
    row("udp6 inet address, v6 only", to(strict, "abc", 3, 0, &plain, sizeof plain));
    row("udp6 inet address, short", to(fd, "abc", 3, 0, &plain, 12));
    for (int length = 1; length <= 28; length += 3) {
        char name[64];
        snprintf(name, sizeof name, "udp6 sendto length %d", length);
        row(name, to(fd, "x", 1, 0, &where, length));
    }
    odd.sin6_scope_id = 1;
    row("udp6 scope id", to(fd, "x", 1, 0, &odd, sizeof odd));
    odd = where, odd.sin6_port = 0;
    row("udp6 port 0", to(fd, "x", 1, 0, &odd, sizeof odd));
    const int families[] = {AF_UNSPEC, AF_UNIX, 77};
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        odd = where, odd.sin6_family = (sa_family_t)families[i];
        snprintf(name, sizeof name, "udp6 sendto family %d", families[i]);
        row(name, to(fd, "x", 1, 0, &odd, sizeof odd));
        snprintf(name, sizeof name, "udp6 sendto family %d, length 2", families[i]);
        row(name, to(fd, "x", 1, 0, &odd, 2));
    }
    row("udp6 connect", connect(fd, (struct sockaddr *)&where, sizeof where));
    odd = where, odd.sin6_family = AF_UNSPEC;
    row("udp6 connected, AF_UNSPEC", to(fd, "x", 1, 0, &odd, sizeof odd));
    row("udp6 connected, inet address", to(fd, "x", 1, 0, &plain, sizeof plain));
    arrived("udp6", here);
    arrived("udp6 by four", four);
    close(fd), close(here), close(four), close(strict);
}

struct control {
    _Alignas(struct cmsghdr) char bytes[2048];
    size_t used;
};

static void add(struct control *all, int level, int type, const void *data, size_t size) {
    struct cmsghdr *part = (struct cmsghdr *)(void *)(all->bytes + all->used);
    part->cmsg_level = level, part->cmsg_type = type, part->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(part), data, size);
    all->used += CMSG_SPACE(size);
}

static long with_control(int fd, const void *address, socklen_t length, struct control *all, long flags) {
    struct iovec data = piece("c", 1);
    struct msghdr header = message(address, length, &data, 1);
    header.msg_control = all->bytes, header.msg_controllen = all->used;
    return msg(fd, &header, flags);
}

static void control_data(void) {
    int fd = made(socket(AF_INET, SOCK_DGRAM, 0)), here = receiver(AF_INET), number = 7;
    struct sockaddr_in where = v4("127.0.0.1", port_of(here));
    struct control all = {.used = 0};
    add(&all, IPPROTO_IP, IP_TTL, &number, sizeof number);
    row("udp IP_TTL", with_control(fd, &where, sizeof where, &all, 0));
    struct in_pktinfo source = {0, {htonl(INADDR_LOOPBACK)}, {0}};
    add(&all, IPPROTO_IP, IP_PKTINFO, &source, sizeof source);
    row("udp IP_PKTINFO", with_control(fd, &where, sizeof where, &all, 0));
    all.used = 0;
    add(&all, IPPROTO_IP, 99, &number, sizeof number);
    row("udp unknown control", with_control(fd, &where, sizeof where, &all, 0));
    ((struct cmsghdr *)(void *)all.bytes)->cmsg_len = 5;
    row("udp control shorter than its head", with_control(fd, &where, sizeof where, &all, 0));
    ((struct cmsghdr *)(void *)all.bytes)->cmsg_len = 500;
    row("udp control longer than all", with_control(fd, &where, sizeof where, &all, 0));
    all.used = 7;
    row("udp control of 7 bytes", with_control(fd, &where, sizeof where, &all, 0));
    all.used = 0;
    uint16_t segment = 2;
    add(&all, 17 /* SOL_UDP */, 103 /* UDP_SEGMENT */, &segment, sizeof segment);
    struct iovec data = piece("aabbcc", 6);
    struct msghdr header = message(&where, sizeof where, &data, 1);
    header.msg_control = all.bytes, header.msg_controllen = all.used;
    row("udp in segments", msg(fd, &header, 0));
    arrived("control", here);
    close(fd), close(here);
}

static void many(void) {
    int fd = made(socket(AF_INET, SOCK_DGRAM, 0)), here = receiver(AF_INET);
    struct sockaddr_in where = v4("127.0.0.1", port_of(here)), none = v4("127.0.0.1", 0);
    struct iovec data[3] = {piece("a", 1), piece("bb", 2), piece("ccc", 3)};
    static struct mmsghdr all[1100];
    for (int i = 0; i < 1100; i++) all[i].msg_hdr = message(&where, sizeof where, &data[i % 3], 1);
    row("sendmmsg 0", syscall(SYS_sendmmsg, (long)fd, all, 0, 0));
    row("sendmmsg 0, array faults", syscall(SYS_sendmmsg, (long)fd, (void *)8, 0, 0));
    row("sendmmsg array faults", syscall(SYS_sendmmsg, (long)fd, (void *)8, 3, 0));
    row("sendmmsg 3", syscall(SYS_sendmmsg, (long)fd, all, 3, 0));
    printf("  lengths %u %u %u %u\n", all[0].msg_len, all[1].msg_len, all[2].msg_len, all[3].msg_len);
    all[1].msg_hdr.msg_name = (void *)8;
    all[0].msg_len = all[1].msg_len = 99;
    row("sendmmsg second name faults", syscall(SYS_sendmmsg, (long)fd, all, 3, 0));
    printf("  lengths %u %u\n", all[0].msg_len, all[1].msg_len);
    row("sendmmsg first name faults", syscall(SYS_sendmmsg, (long)fd, all + 1, 2, 0));
    all[1].msg_hdr.msg_name = &none;
    row("sendmmsg second refused by the kernel", syscall(SYS_sendmmsg, (long)fd, all, 3, 0));
    row("sendmmsg first refused by the kernel", syscall(SYS_sendmmsg, (long)fd, all + 1, 2, 0));
    all[1].msg_hdr.msg_name = &where;
    struct iovec wrong = piece((void *)8, 5);
    all[2].msg_hdr.msg_iov = &wrong;
    row("sendmmsg third payload faults", syscall(SYS_sendmmsg, (long)fd, all, 3, 0));
    all[2].msg_hdr.msg_iov = &data[2];
    row("sendmmsg with flags", syscall(SYS_sendmmsg, (long)fd, all, 3, MSG_DONTWAIT));
    arrived("sendmmsg", here);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct mmsghdr *last = (struct mmsghdr *)(void *)(page + 4096 - sizeof *last);
    *last = all[0];
    row("sendmmsg array into a missing page", syscall(SYS_sendmmsg, (long)fd, last, 2, 0));
    last[-1] = all[0];
    mprotect(page, 4096, PROT_READ);
    row("sendmmsg lengths cannot be written", syscall(SYS_sendmmsg, (long)fd, last - 1, 2, 0));
    arrived("sendmmsg", here);
    int wide = 1 << 20;
    setsockopt(here, SOL_SOCKET, SO_RCVBUF, &wide, sizeof wide);
    for (int i = 0; i < 1100; i++) all[i].msg_hdr.msg_iov = &data[0];
    row("sendmmsg 1100", syscall(SYS_sendmmsg, (long)fd, all, 1100, 0));
    row("sendmmsg -1", syscall(SYS_sendmmsg, (long)fd, all, 0xffffffffUL, MSG_OOB));
    close(fd), close(here);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) exit(2);
    for (int i = 0; i < 3; i++) all[i].msg_hdr = message(NULL, 0, &data[i], 1);
    row("sendmmsg on a stream", syscall(SYS_sendmmsg, (long)pair[0], all, 3, 0));
    arrived("stream", pair[1]);
    close(pair[1]);
    row("sendmmsg on a broken stream", syscall(SYS_sendmmsg, (long)pair[0], all, 3, 0));
    close(pair[0]);
}

static void received_with(const char *name, int fd) {
    struct control all;
    char bytes[100];
    struct iovec into = {bytes, sizeof bytes};
    struct msghdr header = message(NULL, 0, &into, 1);
    header.msg_control = all.bytes, header.msg_controllen = sizeof all.bytes;
    long got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    printf("  %s received %ld flags=%#x", name, got, header.msg_flags);
    for (struct cmsghdr *part = got < 0 ? NULL : CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
        size_t size = part->cmsg_len - CMSG_LEN(0);
        printf(" [%d %d %zu", part->cmsg_level, part->cmsg_type, size);
        if (part->cmsg_type == SCM_RIGHTS)
            for (size_t i = 0; i < size / sizeof(int); i++) {
                int one;
                struct stat st, known;
                memcpy(&one, CMSG_DATA(part) + i * sizeof one, sizeof one);
                memset(&st, 0, sizeof st);
                fstat(one, &st);
                stat("regular", &known);
                if (i < 3) printf(" %o:%d:%#x", st.st_mode, st.st_ino == known.st_ino, (unsigned)fcntl(one, F_GETFL));
                close(one);
            }
        if (part->cmsg_type == SCM_CREDENTIALS) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(part), sizeof who);
            printf(" uid=%u gid=%u", who.uid, who.gid); /* the pid is a listed difference */
        }
        printf("]");
    }
    printf("\n");
    fflush(stdout);
}

static int local(int type, const char *path) {
    struct sockaddr_un where;
    int fd = made(socket(AF_UNIX, type, 0));
    socklen_t length = named(&where, path);
    if (bind(fd, (struct sockaddr *)&where, length) != 0) printf("setup bind %s: errno=%d\n", path, errno), exit(2);
    return fd;
}

static void unix_datagrams(void) {
    char abstract[64], name[96];
    struct sockaddr_un where, other;
    snprintf(abstract, sizeof abstract, "@cg-%d-send", getpid());
    int here = local(SOCK_DGRAM, "sock-datagram"), hidden = local(SOCK_DGRAM, abstract), fd = made(socket(AF_UNIX, SOCK_DGRAM, 0));
    int stream = local(SOCK_STREAM, "sock-a-stream"), pair[2];
    if (listen(stream, 2) != 0) exit(2);
    socklen_t length = named(&where, "sock-datagram"), size;
    row("unix no address", to(fd, "x", 1, 0, NULL, 0));
    row("unix sendto", to(fd, "abc", 3, 0, &where, length));
    row("unix sendto without terminator", to(fd, "abc", 3, 0, &where, length - 1));
    row("unix sendto nothing", to(fd, "", 0, 0, &where, length));
    const char *others[] = {"missing", "missing/x", "regular", "dir", "link-datagram", "regular/x", "", ".", "./dir/../sock-datagram", "sock-a-stream",
                            "/etc/passwd", "dir/"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, "unix sendto %s", others[i]);
        size = named(&other, others[i]);
        row(name, to(fd, "x", 1, 0, &other, size));
        snprintf(name, sizeof name, "unix sendto %s, payload faults", others[i]);
        row(name, to(fd, (void *)8, 1, 0, &other, size));
        snprintf(name, sizeof name, "unix connect %s", others[i]);
        int one = made(socket(AF_UNIX, SOCK_DGRAM, 0));
        row(name, connect(one, (struct sockaddr *)&other, size));
        close(one);
    }
    row("unix length 1", to(fd, "x", 1, 0, &where, 1));
    row("unix length 2", to(fd, "x", 1, 0, &where, 2));
    row("unix length 111", to(fd, "x", 1, 0, memcpy(calloc(1, 256), &where, sizeof where), 111));
    other = where, other.sun_family = AF_INET;
    row("unix family inet", to(fd, "x", 1, 0, &other, length));
    other.sun_family = AF_UNSPEC;
    row("unix family unspecified", to(fd, "x", 1, 0, &other, length));
    size = named(&other, abstract);
    row("unix abstract", to(fd, "abc", 3, 0, &other, size));
    row("unix abstract missing", to(fd, "abc", 3, 0, &other, size - 1));
    row("unix MSG_OOB", to(fd, "x", 1, MSG_OOB, &where, length));
    arrived("unix", here);
    arrived("unix abstract", hidden);
    char *bytes = calloc(1, 4 << 20);
    row("unix 4 MiB", to(fd, bytes, 4 << 20, 0, &where, length));
    row("unix 4 MiB to nobody", to(fd, bytes, 4 << 20, 0, &other, size - 1));
    row("unix 100000", to(fd, bytes, 100000, MSG_DONTWAIT, &where, length));
    row("unix 1 GiB", to(fd, bytes, 1 << 30, MSG_DONTWAIT, &where, length));
    arrived("unix", here);
    row("unix connect", connect(fd, (struct sockaddr *)&where, length));
    row("unix connected, no address", to(fd, "x", 1, 0, NULL, 0));
    row("unix connected, redirected", to(fd, "xy", 2, 0, &other, size));
    arrived("unix connected", here);
    arrived("unix redirected", hidden);
    struct iovec data[3] = {piece("a", 1), piece("bb", 2), piece("ccc", 3)};
    struct mmsghdr three[3];
    memset(three, 0, sizeof three);
    for (int i = 0; i < 3; i++) three[i].msg_hdr = message(i == 1 ? &other : &where, i == 1 ? size : length, &data[i], 1);
    row("unix sendmmsg", syscall(SYS_sendmmsg, (long)fd, three, 3, 0));
    arrived("unix sendmmsg", here);
    three[1].msg_hdr.msg_namelen = size - 1;
    row("unix sendmmsg second to nobody", syscall(SYS_sendmmsg, (long)fd, three, 3, 0));
    arrived("unix sendmmsg", here);
    long sent = 0;
    while (to(fd, "x", 1, MSG_DONTWAIT, &where, length) == 1 && sent < 100000) sent++;
    row("unix full", to(fd, "x", 1, MSG_DONTWAIT, &where, length));
    printf("  %ld fit\n", sent);
    struct timeval wait = {0, 100000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    row("unix full, with a timeout", to(fd, "x", 1, 0, &where, length));
    wait.tv_sec = 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    struct itimerval soon = {{0, 0}, {0, 300000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    row("unix full, timeout interrupted", to(fd, "x", 1, 0, &where, length));
    memset(&wait, 0, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    setitimer(ITIMER_REAL, &soon, NULL);
    row("unix full, interrupted", to(fd, "x", 1, 0, &where, length));
    close(here);
    row("unix receiver gone", to(fd, "x", 1, 0, &where, length));
    row("unix peer gone", to(fd, "x", 1, 0, NULL, 0));
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) exit(2);
    row("unix pair sends elsewhere", to(pair[0], "x", 1, 0, &other, size));
    row("unix pair", to(pair[0], "x", 1, 0, NULL, 0));
    shutdown(pair[1], SHUT_RD);
    row("unix pair that reads no more", to(pair[0], "x", 1, 0, NULL, 0));
    shutdown(pair[0], SHUT_WR);
    struct msghdr header = message(NULL, 0, data, 1);
    row("unix pair after shutdown", msg(pair[0], &header, 0));
    close(pair[1]);
    row("unix pair alone", msg(pair[0], &header, 0));
    close(fd), close(hidden), close(stream), close(pair[0]);
    free(bytes);
}

static void passing(int type, const char *label) {
    int pair[2], on = 1, folder = open("dir", O_PATH), file = open("regular", O_RDONLY), numbers[300];
    char name[96];
    if (socketpair(AF_UNIX, type, 0, pair) != 0) exit(2);
    struct control all = {.used = 0};
    struct ucred who = {getpid(), getuid(), getgid()};
    int two[2] = {file, folder};
#define CASE(text) (snprintf(name, sizeof name, "%s %s", label, text), name)
    add(&all, SOL_SOCKET, SCM_RIGHTS, two, sizeof two);
    row(CASE("two descriptors"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    add(&all, SOL_SOCKET, SCM_RIGHTS, two, sizeof(int));
    row(CASE("two times descriptors"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    all.used = 0, add(&all, SOL_SOCKET, SCM_RIGHTS, two, 0);
    row(CASE("no descriptors"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    all.used = 0, add(&all, SOL_SOCKET, SCM_RIGHTS, two, 7);
    row(CASE("one descriptor and a half"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    int bad[3] = {file, 987, file};
    all.used = 0, add(&all, SOL_SOCKET, SCM_RIGHTS, bad, sizeof bad);
    row(CASE("a closed descriptor"), with_control(pair[0], NULL, 0, &all, 0));
    bad[1] = -1;
    all.used = 0, add(&all, SOL_SOCKET, SCM_RIGHTS, bad, sizeof bad);
    row(CASE("descriptor -1"), with_control(pair[0], NULL, 0, &all, 0));
    for (int i = 0; i < 300; i++) numbers[i] = file;
    all.used = 0, add(&all, SOL_SOCKET, SCM_RIGHTS, numbers, 253 * sizeof(int));
    row(CASE("253 descriptors"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    all.used = 0, add(&all, SOL_SOCKET, SCM_RIGHTS, numbers, 254 * sizeof(int));
    row(CASE("254 descriptors"), with_control(pair[0], NULL, 0, &all, 0));
    all.used = 0, add(&all, SOL_SOCKET, SCM_RIGHTS, numbers, 200 * sizeof(int)), add(&all, SOL_SOCKET, SCM_RIGHTS, numbers, 100 * sizeof(int));
    row(CASE("200 and 100 descriptors"), with_control(pair[0], NULL, 0, &all, 0));
    setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    all.used = 0, add(&all, SOL_SOCKET, SCM_CREDENTIALS, &who, sizeof who);
    row(CASE("own credentials"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    add(&all, SOL_SOCKET, SCM_RIGHTS, two, sizeof(int));
    row(CASE("credentials and a descriptor"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    struct ucred wrong = who;
    wrong.pid = 1;
    all.used = 0, add(&all, SOL_SOCKET, SCM_CREDENTIALS, &wrong, sizeof wrong);
    row(CASE("another's pid"), with_control(pair[0], NULL, 0, &all, 0));
    wrong = who, wrong.uid += 12345;
    all.used = 0, add(&all, SOL_SOCKET, SCM_CREDENTIALS, &wrong, sizeof wrong);
    row(CASE("another's uid"), with_control(pair[0], NULL, 0, &all, 0));
    wrong = who, wrong.gid += 12345;
    all.used = 0, add(&all, SOL_SOCKET, SCM_CREDENTIALS, &wrong, sizeof wrong);
    row(CASE("another's gid"), with_control(pair[0], NULL, 0, &all, 0));
    all.used = 0, add(&all, SOL_SOCKET, SCM_CREDENTIALS, &who, 8);
    row(CASE("short credentials"), with_control(pair[0], NULL, 0, &all, 0));
    all.used = 0, add(&all, SOL_SOCKET, 77, &who, 8);
    row(CASE("unknown kind"), with_control(pair[0], NULL, 0, &all, 0));
    all.used = 0, add(&all, IPPROTO_IP, SCM_RIGHTS, two, sizeof(int));
    row(CASE("another level"), with_control(pair[0], NULL, 0, &all, 0));
    received_with(label, pair[1]);
    row(CASE("nothing said"), send(pair[0], "x", 1, 0));
    received_with(label, pair[1]);
    close(pair[0]), close(pair[1]), close(folder), close(file);
}

static struct drain {
    int fd;
    long total;
} drained;

static void *drain(void *unused) {
    char bytes[65536];
    long got;
    (void)unused;
    while ((got = read(drained.fd, bytes, sizeof bytes)) > 0) {
        for (long i = 0; i < got; i++)
            if (bytes[i] != (char)((drained.total + i) / 4096)) drained.total = -(1L << 60); /* out of order */
        drained.total += got;
    }
    return NULL;
}

static void streams(int pair[2], const char *label, const void *address, socklen_t length) {
    char name[96];
    struct iovec data = piece("xyz", 3), nothing = piece((void *)8, 3);
    struct msghdr header = message(address, length, &data, 1);
    row(CASE("sendmsg with an address"), msg(pair[0], &header, 0));
    row(CASE("sendto with an address"), to(pair[0], "xy", 2, 0, address, length));
    row(CASE("sendto with a short address"), to(pair[0], "xy", 2, 0, address, 1));
    row(CASE("sendto with an address that faults"), to(pair[0], "xy", 2, 0, (void *)8, length));
    header = message(NULL, 0, &data, 1);
    row(CASE("sendmsg"), msg(pair[0], &header, 0));
    row(CASE("sendmsg with MSG_EOR"), msg(pair[0], &header, MSG_EOR));
    header.msg_iov = &nothing;
    row(CASE("sendmsg payload faults"), msg(pair[0], &header, 0));
    nothing.iov_len = 0;
    row(CASE("sendmsg of nothing"), msg(pair[0], &header, 0));
    header.msg_iovlen = 0;
    row(CASE("sendmsg without pieces"), msg(pair[0], &header, 0));
    arrived(label, pair[1]);
    char *page = two_pages();
    struct iovec two[2] = {piece(page + 4000, 96), piece(page + 4000, 500)};
    header = message(NULL, 0, two, 2);
    row(CASE("sendmsg into a missing page"), msg(pair[0], &header, 0));
    arrived(label, pair[1]);
    size_t size = 9 << 20;
    char *bytes = malloc(size);
    for (size_t i = 0; i < size; i++) bytes[i] = (char)(i / 4096);
    struct iovec halves[3] = {piece(bytes, 5000001), piece(bytes, 0), piece(bytes + 5000001, size - 5000001)};
    header = message(NULL, 0, halves, 3);
    pthread_t thread;
    drained.fd = pair[1], drained.total = 0;
    long sent;
    if (label[0] != 's') { /* a stream, and it blocks until all is taken */
        pthread_create(&thread, NULL, drain, NULL);
        row(CASE("sendmsg of 9 MiB"), msg(pair[0], &header, 0));
        shutdown(pair[0], SHUT_WR);
        pthread_join(thread, NULL);
        printf("  in order %ld\n", drained.total);
    } else {
        row(CASE("sendmsg of 9 MiB"), msg(pair[0], &header, 0));
        shutdown(pair[0], SHUT_WR);
    }
    header = message(NULL, 0, &data, 1);
    row(CASE("sendmsg after shutdown"), msg(pair[0], &header, 0));
    row(CASE("sendmsg after shutdown, no signal"), msg(pair[0], &header, MSG_NOSIGNAL));
    sent = to(pair[0], "x", 1, 0, address, length);
    row(CASE("sendto with an address after shutdown"), sent);
    free(bytes);
    close(pair[0]), close(pair[1]);
}

static void connected_streams(void) {
    int pair[2], listener = made(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in here = v4("127.0.0.1", 0), none;
    struct sockaddr_un name;
    socklen_t length = named(&name, "sock-a-stream");
    if (bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, 4) != 0) exit(2);
    here = v4("127.0.0.1", port_of(listener));
    pair[0] = made(socket(AF_INET, SOCK_STREAM, 0));
    row("tcp unconnected sendto", to(pair[0], "x", 1, 0, &here, sizeof here));
    row("tcp unconnected sendto, no signal", to(pair[0], "x", 1, MSG_NOSIGNAL, &here, sizeof here));
    row("tcp connect", connect(pair[0], (struct sockaddr *)&here, sizeof here));
    pair[1] = made(accept(listener, NULL, NULL));
    memset(&none, 0, sizeof none);
    streams(pair, "tcp", &none, sizeof none);
    close(listener);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) exit(2);
    streams(pair, "unix stream", &name, length);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) exit(2);
    streams(pair, "seqpacket", &name, length);
    int one = made(socket(AF_UNIX, SOCK_STREAM, 0)), two = made(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    row("unix stream unconnected with an address", to(one, "x", 1, 0, &name, length));
    row("unix stream unconnected, bad address", to(one, "x", 1, 0, &name, 1));
    row("unix stream unconnected, MSG_OOB", to(one, "x", 1, MSG_OOB, &name, length));
    row("seqpacket unconnected with an address", to(two, "x", 1, 0, &name, length));
    struct iovec data = piece("x", 1);
    struct msghdr header = message(NULL, 0, &data, 1);
    row("unix stream unconnected", msg(one, &header, 0));
    row("seqpacket unconnected", msg(two, &header, 0));
    close(one), close(two);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) exit(2);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    char *bytes = calloc(1, 1 << 20);
    data = piece(bytes, 1 << 20);
    long taken = 0, got;
    while ((got = msg(pair[0], &header, 0)) > 0) taken += got;
    row("unix stream full, non-blocking", got);
    printf("  %s\n", taken > 0 && taken < 1 << 22 ? "some fit" : "none or too much fit");
    fcntl(pair[0], F_SETFL, 0);
    row("unix stream full, MSG_DONTWAIT", msg(pair[0], &header, MSG_DONTWAIT));
    struct itimerval soon = {{0, 0}, {0, 300000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    row("unix stream full, interrupted", msg(pair[0], &header, 0));
    close(pair[0]), close(pair[1]);
    free(bytes);
}

static void netlink(int type, const char *label) {
    char name[96];
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct {
        struct nlmsghdr head;
        struct rtgenmsg what;
    } ask = {{sizeof ask, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
    int fd = made(socket(AF_NETLINK, type, NETLINK_ROUTE));
    char answer[32768];
    row(CASE("sendto"), to(fd, &ask, sizeof ask, 0, &kernel, sizeof kernel));
    printf("  answered %d\n", recv(fd, answer, sizeof answer, 0) > 0);
    struct iovec data = piece(&ask, sizeof ask);
    struct msghdr header = message(&kernel, sizeof kernel, &data, 1);
    while (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0) {}
    row(CASE("sendmsg"), msg(fd, &header, 0));
    while (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0) {}
    row(CASE("short address"), to(fd, &ask, sizeof ask, 0, &kernel, 4));
    kernel.nl_pid = 1;
    row(CASE("to a process"), to(fd, &ask, sizeof ask, 0, &kernel, sizeof kernel));
    kernel.nl_pid = 0, kernel.nl_groups = 1;
    row(CASE("to a group"), to(fd, &ask, sizeof ask, 0, &kernel, sizeof kernel));
    kernel.nl_family = AF_INET;
    row(CASE("another family"), to(fd, &ask, sizeof ask, 0, &kernel, sizeof kernel));
    close(fd);
}

int main(void) {
    drop_capabilities();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_pipe;
    sigaction(SIGPIPE, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    bad_arguments();
    datagrams();
    datagrams6();
    control_data();
    many();
    unix_datagrams();
    passing(SOCK_DGRAM, "datagram pair");
    passing(SOCK_STREAM, "stream pair");
    passing(SOCK_SEQPACKET, "seqpacket pair");
    connected_streams();
    netlink(SOCK_RAW, "netlink raw");
    netlink(SOCK_DGRAM, "netlink datagram");
    return 0;
}
