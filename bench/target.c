/* What is measured: small loops of one call each. Prints nanoseconds per call, the median of up to twenty batches.
 *
 *   target read COUNT FILE          openat(O_RDONLY) and close
 *   target denied COUNT FILE        the same, to be refused
 *   target create COUNT DIRECTORY   openat(O_CREAT|O_EXCL) of a new name, and close; the files are left for the caller
 *   target rename COUNT DIRECTORY   renameat of a file, to and fro
 *   target unlink COUNT DIRECTORY   unlinkat of a file made for it
 *   target mkdir COUNT DIRECTORY    mkdirat of a new name; it is removed again
 *   target chmod COUNT FILE         fchmodat
 *   target connect COUNT PORT       connect of a new TCP socket to 127.0.0.1
 *   target look-up COUNT NAME       getaddrinfo of both families
 *   target sendto COUNT PORT        a datagram of 64 bytes to 127.0.0.1
 *   target sendmmsg COUNT PORT      64 of them in one call, to be counted as one
 *   target threads COUNT FILE       as read, in 64 threads of COUNT calls each; the batch is the whole
 *   target spawn COUNT COMMAND...   fork, exec and wait for the end; what it prints goes into memory, as programs do less
 *                                   where they see /dev/null
 *   target getppid COUNT -          calls that nobody contests, a hundred for each that is counted
 *   target stat COUNT FILE
 *   target pread COUNT FILE         4 KiB of it
 *   target serve                    prints a port, then accepts and closes until stdin ends; datagrams to the same port
 *                                   are left to be dropped
 *   target names ADDRESS            a name server by UDP, until stdin ends: each name has one IPv4 address
 *
 * The same binary runs bare, under bench/floor/ and under callgate.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

extern char **environ;

enum { BATCHES = 20, THREADS = 64, MESSAGES = 64, PAYLOAD = 64, REPEATED = 100, PART = 4096 };

static void die(const char *what) {
    fprintf(stderr, "target: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One call of the measured kind, `n` counting from 0; the time that counts, in ns. */
typedef double (*step)(long n, char **arguments);

static double open_once(const char *path, int flags) {
    int64_t start = now();
    int fd = open(path, flags, 0600);
    if (fd < 0) die(path);
    close(fd);
    return (double)(now() - start);
}

static double step_read(long n, char **arguments) {
    (void)n;
    return open_once(arguments[0], O_RDONLY | O_CLOEXEC);
}

static double step_denied(long n, char **arguments) {
    (void)n;
    int64_t start = now();
    if (open(arguments[0], O_RDONLY | O_CLOEXEC) >= 0) errno = 0;
    double spent = (double)(now() - start);
    if (errno != EACCES) die(arguments[0]);
    return spent;
}

static double step_chmod(long n, char **arguments) {
    int64_t start = now();
    if (fchmodat(AT_FDCWD, arguments[0], 0600 | (n & 1 ? 0040 : 0), 0) != 0) die(arguments[0]);
    return (double)(now() - start);
}

static double step_create(long n, char **arguments) {
    char path[4096];
    snprintf(path, sizeof path, "%s/f%ld", arguments[0], n);
    return open_once(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
}

static double step_rename(long n, char **arguments) {
    char names[2][4096];
    for (int i = 0; i < 2; i++) snprintf(names[i], sizeof names[i], "%s/%c", arguments[0], "ab"[i]);
    if (n == 0) open_once(names[0], O_WRONLY | O_CREAT | O_CLOEXEC);
    int64_t start = now();
    if (renameat(AT_FDCWD, names[n % 2], AT_FDCWD, names[1 - n % 2]) != 0) die("renameat");
    return (double)(now() - start);
}

static double step_unlink(long n, char **arguments) {
    char path[4096];
    (void)n;
    snprintf(path, sizeof path, "%s/a", arguments[0]);
    open_once(path, O_WRONLY | O_CREAT | O_CLOEXEC);
    int64_t start = now();
    if (unlinkat(AT_FDCWD, path, 0) != 0) die("unlinkat");
    return (double)(now() - start);
}

static double step_mkdir(long n, char **arguments) {
    char path[4096];
    snprintf(path, sizeof path, "%s/d%ld", arguments[0], n);
    int64_t start = now();
    if (mkdirat(AT_FDCWD, path, 0755) != 0) die("mkdirat");
    double spent = (double)(now() - start);
    if (unlinkat(AT_FDCWD, path, AT_REMOVEDIR) != 0) die("unlinkat");
    return spent;
}

static struct sockaddr_in loopback(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static double step_connect(long n, char **arguments) {
    (void)n;
    struct sockaddr_in address = loopback(arguments[0]);
    /* Reset instead of TIME_WAIT: the ports of a long run would not suffice. */
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) != 0) die("socket");
    int64_t start = now();
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) die("connect");
    double spent = (double)(now() - start);
    close(fd);
    return spent;
}

static double step_look_up(long n, char **arguments) {
    (void)n;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int64_t start = now();
    if (getaddrinfo(arguments[0], "80", &hints, &found) != 0) die(arguments[0]);
    double spent = (double)(now() - start);
    freeaddrinfo(found);
    return spent;
}

static int datagram_socket(void) {
    static int fd = -1;
    if (fd < 0) fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    return fd;
}

static double step_sendto(long n, char **arguments) {
    (void)n;
    struct sockaddr_in address = loopback(arguments[0]);
    char payload[PAYLOAD] = {0};
    int fd = datagram_socket();
    int64_t start = now();
    if (sendto(fd, payload, sizeof payload, 0, (struct sockaddr *)&address, sizeof address) != PAYLOAD) die("sendto");
    return (double)(now() - start);
}

static double step_sendmmsg(long n, char **arguments) {
    (void)n;
    struct sockaddr_in address = loopback(arguments[0]);
    char payload[PAYLOAD] = {0};
    struct iovec part = {payload, sizeof payload};
    struct mmsghdr messages[MESSAGES] = {0};
    for (int i = 0; i < MESSAGES; i++)
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &part, .msg_iovlen = 1};
    int fd = datagram_socket();
    int64_t start = now();
    if (sendmmsg(fd, messages, MESSAGES, 0) != MESSAGES || messages[MESSAGES - 1].msg_len != PAYLOAD) die("sendmmsg");
    return (double)(now() - start);
}

static double step_spawn(long n, char **arguments) {
    (void)n;
    pid_t child;
    int status;
    posix_spawn_file_actions_t actions;
    int output = memfd_create("output", MFD_CLOEXEC);
    posix_spawn_file_actions_init(&actions);
    if (output < 0 || posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) != 0) die("output");
    int64_t start = now();
    if (posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) != 0) die(arguments[0]);
    if (waitpid(child, &status, 0) != child) die("waitpid");
    double spent = (double)(now() - start);
    close(output);
    posix_spawn_file_actions_destroy(&actions);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) die("the command failed");
    return spent;
}

/* These are too short for a clock around each. */
static double step_getppid(long n, char **arguments) {
    (void)n, (void)arguments;
    int64_t start = now();
    for (int i = 0; i < REPEATED; i++) getppid();
    return (double)(now() - start) / REPEATED;
}

static double step_stat(long n, char **arguments) {
    (void)n;
    struct stat status;
    int64_t start = now();
    for (int i = 0; i < REPEATED; i++)
        if (stat(arguments[0], &status) != 0) die(arguments[0]);
    return (double)(now() - start) / REPEATED;
}

static double step_pread(long n, char **arguments) {
    static int fd = -1;
    char part[PART];
    (void)n;
    if (fd < 0) fd = open(arguments[0], O_RDONLY | O_CLOEXEC);
    int64_t start = now();
    for (int i = 0; i < REPEATED; i++)
        if (pread(fd, part, PART, 0) != PART) die(arguments[0]);
    return (double)(now() - start) / REPEATED;
}

static double in_batches(step one, long count, char **arguments) {
    double batch[BATCHES];
    int batches = count < BATCHES ? (int)count : BATCHES;
    long size = count / batches, n = 0;
    for (int b = 0; b < batches; b++) {
        double spent = 0;
        for (long i = 0; i < size; i++) spent += one(n++, arguments);
        batch[b] = spent / (double)size;
    }
    qsort(batch, (size_t)batches, sizeof batch[0], compare);
    return (batch[(batches - 1) / 2] + batch[batches / 2]) / 2;
}

struct crew {
    pthread_barrier_t start;
    long count;
    const char *path;
};

struct member {
    pthread_t thread;
    struct crew *crew;
    int64_t first, last; /* when it began and ended: the thread that waits may learn of either much later */
};

static void *crew_member(void *data) {
    struct member *self = data;
    pthread_barrier_wait(&self->crew->start);
    self->first = now();
    for (long i = 0; i < self->crew->count; i++) open_once(self->crew->path, O_RDONLY | O_CLOEXEC);
    self->last = now();
    return NULL;
}

static double in_threads(long count, const char *path) {
    struct crew crew = {.count = count, .path = path};
    struct member members[THREADS];
    pthread_barrier_init(&crew.start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        members[i].crew = &crew;
        if (pthread_create(&members[i].thread, NULL, crew_member, &members[i]) != 0) die("pthread_create");
    }
    int64_t first = INT64_MAX, last = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(members[i].thread, NULL);
        if (members[i].first < first) first = members[i].first;
        if (members[i].last > last) last = members[i].last;
    }
    return (double)(last - first) / (double)(count * THREADS);
}

static int serve(void) {
    struct sockaddr_in address = loopback("0");
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        die("serve");
    if (bind(datagram_socket(), (struct sockaddr *)&address, size) != 0) die("serve");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    struct pollfd watched[2] = {{.fd = listener, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    for (;;) {
        if (poll(watched, 2, -1) < 0 && errno != EINTR) die("poll");
        if (watched[1].revents) return 0;
        if (watched[0].revents) {
            int peer = accept(listener, NULL, NULL);
            if (peer >= 0) close(peer);
        }
    }
}

/* Each query has one question, and begins with 12 bytes; the type follows the name. */
static int serve_names(const char *where) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
    int fd = datagram_socket();
    if (inet_pton(AF_INET, where, &address.sin_addr) != 1 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die(where);
    puts("ready");
    fflush(stdout);
    struct pollfd watched[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    for (;;) {
        if (poll(watched, 2, -1) < 0 && errno != EINTR) die("poll");
        if (watched[1].revents) return 0;
        unsigned char message[512];
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        ssize_t got = recvfrom(fd, message, sizeof message - 16, 0, (struct sockaddr *)&peer, &size);
        if (got < 17) continue;
        const char *name = memchr(message + 12, 0, (size_t)got - 16);
        if (name == NULL) continue;
        size_t end = (size_t)((const unsigned char *)name - message) + 5;
        bool address_wanted = message[end - 3] == 1;
        memcpy(message + 2, (unsigned char[]){0x81, 0x80, 0, 1, 0, address_wanted, 0, 0, 0, 0}, 10);
        /* The name above, A, IN, an hour, an address for documentation. */
        if (address_wanted) {
            memcpy(message + end, (unsigned char[]){0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, 203, 0, 113, 80}, 16);
            end += 16;
        }
        sendto(fd, message, end, 0, (struct sockaddr *)&peer, size);
    }
}

int main(int argc, char **argv) {
    static const struct { const char *name; step one; } loops[] = {
        {"denied", step_denied},     {"chmod", step_chmod},
        {"read", step_read},         {"create", step_create},   {"rename", step_rename}, {"unlink", step_unlink},
        {"mkdir", step_mkdir},       {"connect", step_connect}, {"sendto", step_sendto}, {"sendmmsg", step_sendmmsg},
        {"getppid", step_getppid},   {"stat", step_stat},       {"pread", step_pread},   {"spawn", step_spawn},
        {"look-up", step_look_up}};
    if (argc == 2 && strcmp(argv[1], "serve") == 0) return serve();
    if (argc == 3 && strcmp(argv[1], "names") == 0) return serve_names(argv[2]);
    if (argc >= 4) {
        long count = atol(argv[2]);
        if (strcmp(argv[1], "threads") == 0) {
            printf("%.1f\n", in_threads(count, argv[3]));
            return 0;
        }
        for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++)
            if (strcmp(argv[1], loops[i].name) == 0) {
                printf("%.1f\n", in_batches(loops[i].one, count, argv + 3));
                return 0;
            }
    }
    fputs("usage: target LOOP COUNT OBJECT..., target serve, target names ADDRESS; the loops are listed in the source\n", stderr);
    return 2;
}
