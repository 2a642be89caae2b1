/* One reach at a listener by an unusual way of connecting, sending or binding. Loopback only.
 *
 *   attack_net MODE GOOD BAD [MILLISECONDS ROUNDS WINS]
 *
 * GOOD and BAD are ports of 127.0.0.1 (and ::1), or pathnames or @names of unix sockets; GOOD is allowed, BAD is not. Every
 * mode sends `knock` to BAD if it can; `race_` modes again and again. Modes that listen print `PORT n` and wait for a caller.
 * Exit 0: reached (by its own account); 1: refused; 77: no such thing here. The test asks the listeners.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../../programs/clock.h"
#include "../../programs/socket_names.h"

#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30
#endif

static const char *good_name, *bad_name;
static int good, bad;
static double budget = 0.5;
static long rounds = 300, wanted = 5;

static int refused(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return errno == ENOSYS || errno == EPROTONOSUPPORT || errno == EAFNOSUPPORT || errno == ESOCKTNOSUPPORT ? 77 : 1;
}

static int knock(int fd) { return send(fd, "knock", 5, MSG_NOSIGNAL) == 5 ? 0 : refused("send"); }
static int reach(int fd, const void *address, size_t length) {
    if (fd < 0) return refused("socket");
    if (connect(fd, address, (socklen_t)length) != 0) return refused("connect");
    return knock(fd);
}
static int reach4(const char *address, int port) {
    struct sockaddr_in where = v4(address, port);
    return reach(socket(AF_INET, SOCK_STREAM, 0), &where, sizeof where);
}
static int reach6(const char *address, int port) {
    struct sockaddr_in6 where = v6(address, port);
    return reach(socket(AF_INET6, SOCK_STREAM, 0), &where, sizeof where);
}

static int net_connect(void) { return reach4("127.0.0.1", bad); }
static int net_connect6(void) { return reach6("::1", bad); }
static int net_mapped(void) { return reach6("::ffff:127.0.0.1", bad); }
static int net_zero(void) { return reach4("0.0.0.0", bad); }
static int net_zero6(void) { return reach6("::", bad); }
static int net_mapped_zero(void) { return reach6("::ffff:0.0.0.0", bad); }
static int net_scope(void) {
    struct sockaddr_in6 where = v6("::1", bad);
    where.sin6_scope_id = 1;
    return reach(socket(AF_INET6, SOCK_STREAM, 0), &where, sizeof where);
}
static int net_without_scope(void) { /* the old, shorter sockaddr_in6 */
    struct sockaddr_in6 where = v6("::1", bad);
    return reach(socket(AF_INET6, SOCK_STREAM, 0), &where, 24);
}
static int net_long(void) {
    char big[128];
    struct sockaddr_in where = v4("127.0.0.1", bad);
    memset(big, 0x55, sizeof big);
    memcpy(big, &where, sizeof where);
    return reach(socket(AF_INET, SOCK_STREAM, 0), big, sizeof big);
}
static int net_high_bits(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    long fd = socket(AF_INET, SOCK_STREAM, 0);
    if (syscall(SYS_connect, fd | (1L << 32), &where, sizeof where | (1UL << 32)) != 0) return refused("connect");
    return knock((int)fd);
}
static int net_unspec(void) {
    struct sockaddr_in first = v4("127.0.0.1", good), second = v4("127.0.0.1", bad), none;
    memset(&none, 0, sizeof none);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&first, sizeof first) != 0) return refused("connect good");
    if (connect(fd, (struct sockaddr *)&none, sizeof none) != 0) return refused("dissolve");
    return reach(fd, &second, sizeof second);
}
/* One process makes the socket, and another connects it. */
static int net_passed(void) {
    int pair[2], fd = -1;
    char byte = 0;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct sockaddr_in where = v4("127.0.0.1", bad);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return refused("socketpair");
    if (fork() == 0) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        _exit(sendmsg(pair[1], &message, 0) == 1 ? 0 : 1);
    }
    if (recvmsg(pair[0], &message, 0) != 1) return refused("recvmsg");
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return reach(fd, &where, sizeof where);
}
/* The number of a socket that is connected to GOOD is that of another one later. */
static int net_number_again(void) {
    struct sockaddr_in first = v4("127.0.0.1", good), second = v4("127.0.0.1", bad);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&first, sizeof first) != 0) return refused("connect good");
    if (dup2(socket(AF_INET, SOCK_STREAM, 0), fd) != fd) return refused("dup2");
    return reach(fd, &second, sizeof second);
}
static int net_nonblocking(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
    if (connect(fd, (struct sockaddr *)&where, sizeof where) != 0 && errno != EINPROGRESS) return refused("connect");
    struct pollfd one = {fd, POLLOUT, 0};
    socklen_t length = sizeof error;
    if (poll(&one, 1, 3000) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
        errno = error;
        return refused("SO_ERROR");
    }
    return knock(fd);
}
static int net_fastopen_sendto(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return sendto(fd, "knock", 5, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&where, sizeof where) == 5 ? 0 : refused("sendto");
}
static int net_fastopen_sendto_high(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    long fd = socket(AF_INET, SOCK_STREAM, 0);
    long flags = (long)(MSG_FASTOPEN | MSG_NOSIGNAL) | (1L << 40);
    return syscall(SYS_sendto, fd, "knock", 5L, flags, &where, sizeof where) == 5 ? 0 : refused("sendto");
}
static int send_message(int fd, void *address, socklen_t length, int flags, int many) {
    struct iovec data = {(void *)(uintptr_t)"knock", 5};
    struct mmsghdr message[1];
    memset(message, 0, sizeof message);
    message[0].msg_hdr.msg_name = address;
    message[0].msg_hdr.msg_namelen = length;
    message[0].msg_hdr.msg_iov = &data;
    message[0].msg_hdr.msg_iovlen = 1;
    if (many) return sendmmsg(fd, message, 1, flags | MSG_NOSIGNAL) == 1 ? 0 : refused("sendmmsg");
    return sendmsg(fd, &message[0].msg_hdr, flags | MSG_NOSIGNAL) == 5 ? 0 : refused("sendmsg");
}
static int net_fastopen_sendmsg(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return send_message(socket(AF_INET, SOCK_STREAM, 0), &where, sizeof where, MSG_FASTOPEN, 0);
}
static int net_fastopen_sendmmsg(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return send_message(socket(AF_INET, SOCK_STREAM, 0), &where, sizeof where, MSG_FASTOPEN, 1);
}
static int net_fastopen_connect(void) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in where = v4("127.0.0.1", bad);
    if (setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one) != 0) return refused("TCP_FASTOPEN_CONNECT");
    return reach(fd, &where, sizeof where);
}
static int net_mptcp(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return reach(socket(AF_INET, SOCK_STREAM, 262), &where, sizeof where);
}
static int net_ring(void) {
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (ring < 0) return refused("io_uring_setup");
    size_t length = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *request = mmap(NULL, 4 * sizeof *request, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (rings == MAP_FAILED || request == MAP_FAILED) return refused("mmap");
    struct sockaddr_in where = v4("127.0.0.1", bad);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(request, 0, sizeof *request);
    request->opcode = IORING_OP_CONNECT;
    request->fd = fd;
    request->addr = (uintptr_t)&where;
    request->off = sizeof where;
    ((unsigned *)(void *)(rings + params.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(void *)(rings + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) return refused("io_uring_enter");
    int result = ((struct io_uring_cqe *)(void *)(rings + params.cq_off.cqes))[0].res;
    errno = result < 0 ? -result : 0;
    return result < 0 ? refused("connect") : knock(fd);
}

/* ---- datagrams: the rule set allows udp to GOOD ---- */

static int udp_socket(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0) exit(refused("socket"));
    return fd;
}
static int net_udp_connect(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return reach(udp_socket(), &where, sizeof where);
}
static int net_udp_sendto(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return sendto(udp_socket(), "knock", 5, 0, (struct sockaddr *)&where, sizeof where) == 5 ? 0 : refused("sendto");
}
static int net_udp_redirected(void) {
    struct sockaddr_in first = v4("127.0.0.1", good), where = v4("127.0.0.1", bad);
    int fd = udp_socket();
    if (connect(fd, (struct sockaddr *)&first, sizeof first) != 0) return refused("connect good");
    return sendto(fd, "knock", 5, 0, (struct sockaddr *)&where, sizeof where) == 5 ? 0 : refused("sendto");
}
static int net_udp_unspec(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    where.sin_family = AF_UNSPEC;
    return sendto(udp_socket(), "knock", 5, 0, (struct sockaddr *)&where, sizeof where) == 5 ? 0 : refused("sendto");
}
static int net_udp_v4_on_v6(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    if (fd < 0) return refused("socket");
    return sendto(fd, "knock", 5, 0, (struct sockaddr *)&where, sizeof where) == 5 ? 0 : refused("sendto");
}
static int net_udp_sendmsg(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return send_message(udp_socket(), &where, sizeof where, 0, 0);
}
static int net_udp_sendmmsg(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return send_message(udp_socket(), &where, sizeof where, 0, 1);
}
static int net_udp_sendmmsg_second(void) {
    struct sockaddr_in first = v4("127.0.0.1", good), where = v4("127.0.0.1", bad);
    struct iovec data = {(void *)(uintptr_t)"knock", 5};
    struct mmsghdr message[2];
    memset(message, 0, sizeof message);
    for (int i = 0; i < 2; i++) {
        message[i].msg_hdr.msg_name = i ? &where : &first;
        message[i].msg_hdr.msg_namelen = sizeof where;
        message[i].msg_hdr.msg_iov = &data;
        message[i].msg_hdr.msg_iovlen = 1;
    }
    return sendmmsg(udp_socket(), message, 2, 0) == 2 ? 0 : refused("sendmmsg");
}

/* The packet goes to the first stop of a route that the option gives, whatever the address says: here 127.77.x.y of the port BAD. */
static void route(unsigned char option[8]) {
    const unsigned char first[8] = {131 /* LSRR */, 7, 4, 127, 77, (unsigned char)(bad >> 8), (unsigned char)(bad & 255), 0};
    memcpy(option, first, 8);
}
static int net_routed_option(void) {
    struct sockaddr_in where = v4("127.0.0.1", good);
    unsigned char option[8];
    int fd = udp_socket();
    route(option);
    if (setsockopt(fd, IPPROTO_IP, IP_OPTIONS, option, sizeof option) != 0) return refused("IP_OPTIONS");
    return sendto(fd, "knock", 5, 0, (struct sockaddr *)&where, sizeof where) == 5 ? 0 : refused("sendto");
}
static int net_routed_message(void) {
    struct sockaddr_in where = v4("127.0.0.1", good);
    struct iovec data = {(void *)(uintptr_t)"knock", 5};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(8)];
    } control;
    struct msghdr message = {&where, sizeof where, &data, 1, &control, sizeof control, 0};
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = IPPROTO_IP, control.header.cmsg_type = IP_RETOPTS, control.header.cmsg_len = CMSG_LEN(8);
    route(CMSG_DATA(&control.header));
    return sendmsg(udp_socket(), &message, 0) == 5 ? 0 : refused("sendmsg");
}

/* ---- unix sockets ---- */

static int reach_local(const char *path) {
    struct sockaddr_un where;
    socklen_t length = named(&where, path);
    return reach(socket(AF_UNIX, SOCK_STREAM, 0), &where, length);
}
static int net_unix(void) { return reach_local(bad_name); }
static int net_unix_relative(void) {
    char folder[512];
    snprintf(folder, sizeof folder, "%s", bad_name);
    *strrchr(folder, '/') = 0;
    if (chdir(folder) != 0) return refused("chdir");
    return reach_local(strrchr(bad_name, '/') + 1);
}
static int net_unix_symlink(void) {
    char link_name[512];
    snprintf(link_name, sizeof link_name, "%s-link", good_name);
    if (symlink(bad_name, link_name) != 0) return refused("symlink");
    return reach_local(link_name);
}
static int net_unix_hardlink(void) {
    char link_name[512];
    snprintf(link_name, sizeof link_name, "%s-hard", good_name);
    if (link(bad_name, link_name) != 0) return refused("link");
    return reach_local(link_name);
}
static int net_unix_proc_fd(void) {
    char self[64];
    int fd = open(bad_name, O_PATH);
    if (fd < 0) return refused("O_PATH");
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return reach_local(self);
}
static int net_unix_datagram(void) {
    struct sockaddr_un where;
    socklen_t length = named(&where, bad_name);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0) return refused("socket");
    return sendto(fd, "knock", 5, 0, (struct sockaddr *)&where, length) == 5 ? 0 : refused("sendto");
}
static int net_unix_pair_datagram(void) {
    int pair[2];
    struct sockaddr_un where;
    socklen_t length = named(&where, bad_name);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) return refused("socketpair");
    if (sendto(pair[0], "knock", 5, 0, (struct sockaddr *)&where, length) != 5) return refused("sendto");
    char got[5];
    return recv(pair[1], got, sizeof got, MSG_DONTWAIT) < 0 ? 0 : refused("the other end of the pair got it");
}

/* ---- listening ---- */

static int wait_for_caller(int fd) {
    struct sockaddr_in6 where;
    socklen_t length = sizeof where;
    if (getsockname(fd, (struct sockaddr *)&where, &length) != 0) return refused("getsockname");
    printf("PORT %d\n", ntohs(where.sin6_port));
    fflush(stdout);
    struct pollfd both[2] = {{fd, POLLIN, 0}, {0, POLLIN, 0}};
    poll(both, 2, 10000);
    if (!(both[0].revents & POLLIN)) return 1;
    int caller = accept(fd, NULL, NULL);
    if (caller < 0) return refused("accept");
    printf("ACCEPTED\n");
    return 0;
}
static int net_listen_unbound(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (listen(fd, 4) != 0) return refused("listen");
    return wait_for_caller(fd);
}
static int net_listen_unbound6(void) {
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (listen(fd, 4) != 0) return refused("listen");
    return wait_for_caller(fd);
}
/* After a connect that failed the socket still says which port it had, but has it no longer. */
static int net_listen_refused(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&where, sizeof where) == 0 || errno != ECONNREFUSED) return refused("connect");
    if (listen(fd, 4) != 0) return refused("listen");
    return wait_for_caller(fd);
}
static int bound(int family, const void *address, size_t length) {
    int fd = socket(family, SOCK_STREAM, 0);
    if (bind(fd, address, (socklen_t)length) != 0) return refused("bind");
    if (listen(fd, 4) != 0) return refused("listen");
    return wait_for_caller(fd);
}
static int net_bind(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    return bound(AF_INET, &where, sizeof where);
}
static int net_bind_zero(void) {
    struct sockaddr_in where = v4("127.0.0.1", 0);
    return bound(AF_INET, &where, sizeof where);
}
static int net_bind_any(void) { /* a client's bind before it connects, which then listens instead */
    struct sockaddr_in where = v4("0.0.0.0", 0);
    return bound(AF_INET, &where, sizeof where);
}
static int net_bind_any6(void) {
    struct sockaddr_in6 where = v6("::", 0);
    return bound(AF_INET6, &where, sizeof where);
}
static int net_bind_any_connect(void) { /* and one that connects where it may not */
    struct sockaddr_in from = v4("0.0.0.0", 0), where = v4("127.0.0.1", bad);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0) return refused("bind");
    return reach(fd, &where, sizeof where);
}
static int net_bind_unspec(void) {
    struct sockaddr_in where = v4("0.0.0.0", bad);
    where.sin_family = AF_UNSPEC;
    return bound(AF_INET, &where, sizeof where);
}
static int net_bind_shared(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0) return refused("SO_REUSEPORT");
    if (bind(fd, (struct sockaddr *)&where, sizeof where) != 0) return refused("bind");
    if (listen(fd, 4) != 0) return refused("listen");
    return wait_for_caller(fd);
}
static int net_zero_bound(void) { /* goes to the address that the socket is bound to */
    struct sockaddr_in from = v4("127.0.0.2", 0), where = v4("0.0.0.0", bad);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0) return refused("bind");
    return reach(fd, &where, sizeof where);
}
static int net_bind_udp(void) {
    struct sockaddr_in where = v4("127.0.0.1", bad);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&where, sizeof where) != 0) return refused("bind");
    printf("PORT %d\n", bad);
    fflush(stdout);
    char said[16];
    struct pollfd one = {fd, POLLIN, 0};
    if (poll(&one, 1, 10000) != 1 || recv(fd, said, sizeof said, 0) < 0) return refused("recv");
    printf("ACCEPTED\n");
    return 0;
}
static int net_bind6(void) {
    struct sockaddr_in6 where = v6("::1", bad);
    return bound(AF_INET6, &where, sizeof where);
}

/* ---- races ---- */

static struct sockaddr_storage raced;
static socklen_t raced_length;
static struct sockaddr_storage sides[2];
static atomic_int stop;
static int raced_fd = -1;

static void *flip_address(void *unused) {
    (void)unused;
    for (int turn = 0; !atomic_load(&stop); turn ^= 1) {
        memcpy(&raced, &sides[turn], sizeof raced);
        for (volatile int i = 0; i < (rand() & 255); i++) {}
    }
    return NULL;
}
static int tally(pthread_t thread, long won, long twin) {
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    printf("WON %ld TWIN %ld\n", won, twin);
    return won ? 0 : 1;
}
static int race_addresses(int family) {
    pthread_t thread;
    long won = 0, twin = 0;
    memcpy(&raced, &sides[0], sizeof raced);
    pthread_create(&thread, NULL, flip_address, NULL);
    double end = now() + budget;
    for (long tried = 0; (tried < rounds || won < wanted || twin == 0) && now() < end; tried++) {
        int fd = socket(family, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&raced, raced_length) == 0) {
            struct sockaddr_storage peer;
            socklen_t length = sizeof peer;
            memset(&peer, 0, sizeof peer);
            getpeername(fd, (struct sockaddr *)&peer, &length);
            /* the port, or the name, comes right after the family */
            size_t compared = family == AF_UNIX ? raced_length - 2 : 2;
            int hit = memcmp((char *)&peer + 2, (char *)&sides[1] + 2, compared) == 0;
            if (hit) knock(fd);
            won += hit, twin += !hit;
        }
        close(fd);
    }
    return tally(thread, won, twin);
}
static int net_race_connect(void) {
    struct sockaddr_in one = v4("127.0.0.1", good), two = v4("127.0.0.1", bad);
    memcpy(&sides[0], &one, sizeof one);
    memcpy(&sides[1], &two, sizeof two);
    raced_length = sizeof one;
    return race_addresses(AF_INET);
}
static int net_race_connect6(void) {
    struct sockaddr_in6 one = v6("::1", good), two = v6("::1", bad);
    memcpy(&sides[0], &one, sizeof one);
    memcpy(&sides[1], &two, sizeof two);
    raced_length = sizeof one;
    return race_addresses(AF_INET6);
}
static int net_race_unix(void) {
    raced_length = named((struct sockaddr_un *)(void *)&sides[0], good_name);
    named((struct sockaddr_un *)(void *)&sides[1], bad_name);
    return race_addresses(AF_UNIX);
}
static void *flip_link(void *unused) {
    (void)unused;
    char next[512], link_name[512];
    snprintf(link_name, sizeof link_name, "%s-race", good_name);
    snprintf(next, sizeof next, "%s-next", good_name);
    for (int turn = 0; !atomic_load(&stop); turn ^= 1) {
        unlink(next);
        if (symlink(turn ? bad_name : good_name, next) == 0) rename(next, link_name);
    }
    return NULL;
}
static int net_race_unix_link(void) {
    pthread_t thread;
    char link_name[512];
    struct sockaddr_un where;
    long won = 0, twin = 0;
    snprintf(link_name, sizeof link_name, "%s-race", good_name);
    if (symlink(good_name, link_name) != 0) return refused("symlink");
    pthread_create(&thread, NULL, flip_link, NULL);
    socklen_t length = named(&where, link_name);
    double end = now() + budget;
    for (long tried = 0; (tried < rounds || won < wanted || twin == 0) && now() < end; tried++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&where, length) == 0) {
            struct sockaddr_un peer;
            socklen_t size = sizeof peer;
            memset(&peer, 0, sizeof peer);
            getpeername(fd, (struct sockaddr *)&peer, &size);
            int hit = strcmp(peer.sun_path, bad_name) == 0;
            if (hit) knock(fd);
            won += hit, twin += !hit;
        }
        close(fd);
    }
    return tally(thread, won, twin);
}
/* tcp to GOOD is allowed, udp to GOOD is not: the socket under the number changes while connect is judged */
static int spare[2];
static void *flip_socket(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        dup2(spare[0], raced_fd);
        for (volatile int i = 0; i < (rand() & 1023); i++) {}
        dup2(spare[1], raced_fd);
        for (volatile int i = 0; i < (rand() & 1023); i++) {}
    }
    return NULL;
}
static int net_race_socket(void) {
    pthread_t thread;
    struct sockaddr_in where = v4("127.0.0.1", good), none;
    long won = 0, twin = 0;
    memset(&none, 0, sizeof none);
    spare[0] = socket(AF_INET, SOCK_STREAM, 0);
    spare[1] = udp_socket();
    raced_fd = dup(spare[0]);
    pthread_create(&thread, NULL, flip_socket, NULL);
    double end = now() + budget;
    for (long tried = 0; (tried < rounds || won < wanted || twin == 0) && now() < end; tried++) {
        connect(raced_fd, (struct sockaddr *)&where, sizeof where);
        if (send(spare[1], "knock", 5, MSG_NOSIGNAL) == 5) won++;
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        if (getpeername(spare[0], (struct sockaddr *)&peer, &length) == 0) twin++;
        connect(spare[1], (struct sockaddr *)&none, sizeof none);
        connect(spare[0], (struct sockaddr *)&none, sizeof none);
    }
    return tally(thread, won, twin);
}

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {
#define NET(one) {#one, net_##one}
    NET(connect), NET(connect6), NET(mapped), NET(zero), NET(zero6), NET(mapped_zero), NET(scope), NET(without_scope), NET(long),
    NET(high_bits), NET(unspec), NET(passed), NET(number_again), NET(nonblocking), NET(fastopen_sendto), NET(fastopen_sendto_high), NET(fastopen_sendmsg),
    NET(fastopen_sendmmsg), NET(fastopen_connect), NET(mptcp), NET(ring), NET(udp_connect), NET(udp_sendto), NET(udp_redirected),
    NET(udp_unspec), NET(udp_v4_on_v6), NET(udp_sendmsg), NET(udp_sendmmsg), NET(udp_sendmmsg_second), NET(routed_option), NET(routed_message), NET(unix), NET(unix_relative),
    NET(unix_symlink), NET(unix_hardlink), NET(unix_proc_fd), NET(unix_datagram), NET(unix_pair_datagram), NET(listen_unbound),
    NET(listen_unbound6), NET(listen_refused), NET(bind), NET(bind_zero), NET(bind_any), NET(bind_any6), NET(bind_any_connect), NET(bind_unspec), NET(bind_udp), NET(bind_shared), NET(zero_bound), NET(bind6), NET(race_connect), NET(race_connect6),
    NET(race_unix), NET(race_unix_link), NET(race_socket),
};

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    good_name = argv[2], bad_name = argv[3];
    good = atoi(good_name), bad = atoi(bad_name);
    if (argc > 4) budget = atof(argv[4]) / 1000;
    if (argc > 5) rounds = atol(argv[5]);
    if (argc > 6) wanted = atol(argv[6]);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0) continue;
        int result = modes[i].run();
        printf("%s\n", result == 0 ? "WON" : "HELD");
        return result;
    }
    return 2;
}
