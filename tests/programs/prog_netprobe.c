/* Connects and binds sockets of its own making in every way that the kernel answers differently, one line per case.
 *
 * Everything stays inside this process and on loopback: listeners are made here, ports are the kernel's choice and
 * never printed. Runs in a writable directory (unix sockets are made in it). Capabilities are dropped first.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"
#include "socket_names.h"

static void on_alarm(int number) { (void)number; }

static int made(int fd) {
    if (fd < 0) printf("setup failed: errno=%d\n", errno);
    return fd;
}

static void report(const char *name, long result) {
    printf("%s %ld errno=%d\n", name, result, result < 0 ? errno : 0);
    fflush(stdout);
}

static int bound(int family, int listening) {
    int fd = made(socket(family, SOCK_STREAM, 0));
    struct sockaddr_in four = v4("127.0.0.1", 0);
    struct sockaddr_in6 six = v6("::1", 0);
    int result = family == AF_INET ? bind(fd, (struct sockaddr *)&four, sizeof four) : bind(fd, (struct sockaddr *)&six, sizeof six);
    if (result != 0) report("setup bind", result);
    if (listening && listen(fd, listening) != 0) report("setup listen", -1);
    return fd;
}

static void settled(const char *name, int fd) {
    struct pollfd one = {fd, POLLOUT, 0};
    int ready = poll(&one, 1, 2000), error = -1;
    socklen_t length = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    printf("%s poll=%d events=%#x so_error=%d flags=%#x\n", name, ready, (unsigned)one.revents, error, (unsigned)fcntl(fd, F_GETFL));
    fflush(stdout);
}

static void peer(const char *name, int fd) {
    struct sockaddr_storage where;
    socklen_t length = sizeof where;
    int result = getpeername(fd, (struct sockaddr *)&where, &length);
    printf("%s peer=%d errno=%d family=%d length=%u\n", name, result, result ? errno : 0, result ? 0 : where.ss_family, result ? 0 : length);
    fflush(stdout);
}

static long connect_raw(int fd, const void *address, long length) { return syscall(SYS_connect, (long)fd, address, length); }

static void tcp(int family, const char *label) {
    int listener = bound(family, 16), refused = bound(family, 0);
    char name[64];
    for (int open = 0; open < 2; open++) {
        int port = port_of(open ? listener : refused);
        struct sockaddr_in four = v4("127.0.0.1", port);
        struct sockaddr_in6 six = v6("::1", port);
        const void *address = family == AF_INET ? (void *)&four : (void *)&six;
        long length = family == AF_INET ? (long)sizeof four : (long)sizeof six;
        const char *kind = open ? "open" : "refused";
        int fd = made(socket(family, SOCK_STREAM, 0));
        snprintf(name, sizeof name, "%s %s", label, kind);
        report(name, connect_raw(fd, address, length));
        peer(name, fd);
        report("  again", connect_raw(fd, address, length));
        struct sockaddr_in nothing;
        memset(&nothing, 0, sizeof nothing);
        report("  unspec", connect_raw(fd, &nothing, sizeof nothing));
        report("  after unspec", connect_raw(fd, address, length));
        report("  bind connected", bind(fd, address, (socklen_t)length));
        report("  listen connected", listen(fd, 1));
        close(fd);
        fd = made(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
        snprintf(name, sizeof name, "%s %s nonblocking", label, kind);
        report(name, connect_raw(fd, address, length));
        settled(name, fd);
        report("  again", connect_raw(fd, address, length));
        close(fd);
        fd = made(socket(family, SOCK_STREAM, 0));
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        snprintf(name, sizeof name, "%s %s long address", label, kind);
        char big[256];
        memset(big, 0, sizeof big);
        memcpy(big, address, (size_t)length);
        report(name, connect_raw(fd, big, 128));
        close(fd);
        fd = made(socket(family, SOCK_STREAM, 0));
        report("  length 129", connect_raw(fd, big, 129));
        report("  length -1", connect_raw(fd, big, -1));
        report("  length 0", connect_raw(fd, big, 0));
        report("  length 1", connect_raw(fd, big, 1));
        report("  length 15", connect_raw(fd, big, 15));
        report("  length 24", connect_raw(fd, big, 24));
        close(fd);
    }
    close(listener);
    close(refused);
}

static void bad_arguments(void) {
    struct sockaddr_in address = v4("127.0.0.1", 9);
    int fd = made(socket(AF_INET, SOCK_STREAM, 0)), file = open(".", O_RDONLY), pipes[2];
    if (pipe(pipes) != 0) exit(2);
    report("connect bad fd", connect_raw(987, &address, sizeof address));
    report("connect -1", connect_raw(-1, &address, sizeof address));
    report("connect directory", connect_raw(file, &address, sizeof address));
    report("connect pipe", connect_raw(pipes[0], &address, sizeof address));
    report("connect opath", connect_raw(open(".", O_PATH), &address, sizeof address));
    report("connect null", connect_raw(fd, NULL, sizeof address));
    report("connect fault", connect_raw(fd, (void *)8, sizeof address));
    report("connect fault bad fd", connect_raw(987, (void *)8, sizeof address));
    report("connect fault not a socket", connect_raw(file, (void *)8, sizeof address));
    address.sin_family = AF_UNIX;
    report("connect unix address on inet", connect_raw(fd, &address, sizeof address));
    address.sin_family = 77;
    report("connect family 77", connect_raw(fd, &address, sizeof address));
    struct sockaddr_in6 six = v6("::1", 9);
    report("connect inet6 address on inet", connect_raw(fd, &six, sizeof six));
    int fd6 = made(socket(AF_INET6, SOCK_STREAM, 0));
    struct sockaddr_in four = v4("127.0.0.1", 9);
    report("connect inet address on inet6", connect_raw(fd6, &four, sizeof four));
    report("bind bad fd", syscall(SYS_bind, 987, &four, sizeof four));
    report("bind directory", syscall(SYS_bind, file, &four, sizeof four));
    report("bind fault", syscall(SYS_bind, fd, (void *)8, sizeof four));
    report("bind fault bad fd", syscall(SYS_bind, 987, (void *)8, sizeof four));
    report("bind fault not a socket", syscall(SYS_bind, file, (void *)8, sizeof four));
    report("bind length 129", syscall(SYS_bind, fd, &four, 129));
    report("bind length -1", syscall(SYS_bind, fd, &four, -1));
    report("bind opath", syscall(SYS_bind, open(".", O_PATH), &four, sizeof four));
    report("bind short", syscall(SYS_bind, fd, &four, 4));
    report("bind inet address on inet6", syscall(SYS_bind, fd6, &four, sizeof four));
    report("listen directory", listen(file, 1));
    report("listen bad fd", listen(987, 1));
}

static void mapped(void) {
    int listener = bound(AF_INET, 4);
    struct sockaddr_in6 six = v6("::ffff:127.0.0.1", port_of(listener));
    int fd = made(socket(AF_INET6, SOCK_STREAM, 0));
    report("mapped", connect_raw(fd, &six, sizeof six));
    peer("mapped", fd);
    close(fd);
    fd = made(socket(AF_INET6, SOCK_STREAM, 0));
    int only = 1;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    report("mapped v6only", connect_raw(fd, &six, sizeof six));
    close(fd);
    close(listener);
}

static void blocking(void) {
    /* a listener whose queue is full drops SYNs: the connect hangs */
    int listener = bound(AF_INET, 0);
    listen(listener, 0);
    struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
    int first = made(socket(AF_INET, SOCK_STREAM, 0));
    report("fills the queue", connect_raw(first, &address, sizeof address));
    int second = made(socket(AF_INET, SOCK_STREAM, 0));
    struct timeval wait = {0, 200000};
    setsockopt(second, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    report("timeout by SO_SNDTIMEO", connect_raw(second, &address, sizeof address));
    report("  again", connect_raw(second, &address, sizeof address));
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    int third = made(socket(AF_INET, SOCK_STREAM, 0));
    struct itimerval soon = {{0, 0}, {0, 300000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    report("interrupted", connect_raw(third, &address, sizeof address));
    int fourth = made(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    report("nonblocking to a full queue", connect_raw(fourth, &address, sizeof address));
    report("  again", connect_raw(fourth, &address, sizeof address));
    close(first), close(second), close(third), close(fourth), close(listener);
}

static void binding(void) {
    int taken = bound(AF_INET, 4), fd = made(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in same = v4("127.0.0.1", port_of(taken)), any = v4("127.0.0.1", 0), low = v4("127.0.0.1", 80);
    report("bind taken", bind(fd, (struct sockaddr *)&same, sizeof same));
    report("bind port 80", bind(fd, (struct sockaddr *)&low, sizeof low));
    struct sockaddr_in foreign = v4("192.0.2.1", 0);
    report("bind foreign address", bind(fd, (struct sockaddr *)&foreign, sizeof foreign));
    report("bind", bind(fd, (struct sockaddr *)&any, sizeof any));
    printf("  port %s\n", port_of(fd) > 0 ? "given" : "missing");
    report("bind twice", bind(fd, (struct sockaddr *)&any, sizeof any));
    report("listen", listen(fd, 4));
    report("connect to itself", connect_raw(fd, &same, sizeof same));
    struct sockaddr_in wildcard = v4("0.0.0.0", 0);
    int all = made(socket(AF_INET, SOCK_STREAM, 0));
    report("bind wildcard", bind(all, (struct sockaddr *)&wildcard, sizeof wildcard));
    int unbound = made(socket(AF_INET, SOCK_STREAM, 0));
    report("listen unbound", listen(unbound, 4));
    struct sockaddr_in6 six = v6("::", 0);
    int all6 = made(socket(AF_INET6, SOCK_STREAM, 0));
    report("bind wildcard 6", bind(all6, (struct sockaddr *)&six, sizeof six));
    close(taken), close(fd), close(all), close(unbound), close(all6);
}

static void udp(void) {
    int receiver = made(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in here = v4("127.0.0.1", 0);
    report("udp bind", bind(receiver, (struct sockaddr *)&here, sizeof here));
    here = v4("127.0.0.1", port_of(receiver));
    int fd = made(socket(AF_INET, SOCK_DGRAM, 0));
    report("udp connect", connect_raw(fd, &here, sizeof here));
    peer("udp connect", fd);
    report("udp send", send(fd, "x", 1, 0));
    char byte;
    report("udp receive", recv(receiver, &byte, 1, 0));
    struct sockaddr_in nothing;
    memset(&nothing, 0, sizeof nothing);
    report("udp unspec", connect_raw(fd, &nothing, sizeof nothing));
    peer("udp unspec", fd);
    report("udp send unconnected", send(fd, "x", 1, 0));
    report("udp reconnect", connect_raw(fd, &here, sizeof here));
    close(fd);
    close(receiver);
}

static socklen_t unix_address(struct sockaddr_un *one, const char *path) {
    memset(one, 0, sizeof *one);
    one->sun_family = AF_UNIX;
    size_t length = strlen(path);
    memcpy(one->sun_path, path, length);
    if (path[0] == '@') {
        one->sun_path[0] = 0;
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
}

static void unix_sockets(int type, const char *label) {
    struct sockaddr_un where;
    char name[64], abstract[64];
    umask(type == SOCK_STREAM ? 022 : 077);
    snprintf(name, sizeof name, "sock-%s", label);
    int listener = made(socket(AF_UNIX, type, 0));
    socklen_t length = unix_address(&where, name);
    report("unix bind", bind(listener, (struct sockaddr *)&where, length));
    struct stat st;
    if (stat(name, &st) == 0) printf("  mode=%o uid=%u gid=%u\n", st.st_mode, st.st_uid, st.st_gid);
    report("unix bind twice", bind(listener, (struct sockaddr *)&where, length));
    int fd = made(socket(AF_UNIX, type, 0));
    report("unix bind taken", bind(fd, (struct sockaddr *)&where, length));
    report("unix connect not listening", connect_raw(fd, &where, length));
    report("unix listen", listen(listener, 4));
    report("unix connect", connect_raw(fd, &where, length));
    peer("unix connect", fd);
    report("unix connect again", connect_raw(fd, &where, length));
    close(fd);
    const char *others[] = {"missing", "missing/x", "regular", "dir", "link", "dangling", "regular/x", "", ".", "./dir/../sock-stream", "loop"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        fd = made(socket(AF_UNIX, type, 0));
        length = unix_address(&where, others[i]);
        char what[96];
        snprintf(what, sizeof what, "unix connect %s", others[i]);
        report(what, connect_raw(fd, &where, length));
        close(fd);
        fd = made(socket(AF_UNIX, type, 0));
        snprintf(what, sizeof what, "unix bind %s", others[i]);
        if (others[i][0] && strncmp(others[i], "missing", 8) != 0) report(what, bind(fd, (struct sockaddr *)&where, length));
        close(fd);
    }
    fd = made(socket(AF_UNIX, type, 0));
    length = unix_address(&where, name);
    report("unix connect other type", connect_raw(made(socket(AF_UNIX, type == SOCK_STREAM ? SOCK_SEQPACKET : SOCK_STREAM, 0)), &where, length));
    report("unix connect without terminator", connect_raw(fd, &where, length - 1));
    close(fd);
    fd = made(socket(AF_UNIX, type, 0));
    report("unix length 2", connect_raw(fd, &where, 2));
    report("unix length 1", connect_raw(fd, &where, 1));
    report("unix length 111", connect_raw(fd, &where, 111));
    snprintf(abstract, sizeof abstract, "@cg-%d-%s", getpid(), label);
    length = unix_address(&where, abstract);
    report("abstract missing", connect_raw(fd, &where, length));
    int hidden = made(socket(AF_UNIX, type, 0));
    report("abstract bind", bind(hidden, (struct sockaddr *)&where, length));
    report("abstract listen", listen(hidden, 4));
    report("abstract connect", connect_raw(fd, &where, length));
    int automatic = made(socket(AF_UNIX, type, 0));
    where.sun_family = AF_UNIX;
    report("unix autobind", bind(automatic, (struct sockaddr *)&where, 2));
    close(fd), close(hidden), close(listener), close(automatic);
}

int main(void) {
    drop_capabilities();
    tcp(AF_INET, "tcp");
    tcp(AF_INET6, "tcp6");
    bad_arguments();
    mapped();
    blocking();
    binding();
    udp();
    unix_sockets(SOCK_STREAM, "stream");
    unix_sockets(SOCK_SEQPACKET, "seqpacket");
    return 0;
}
