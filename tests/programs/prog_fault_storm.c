/* Contested calls under pressure of the target's own making; prints what came of them, so that a bare run can be compared.
 *
 *   signals FILE DIR PORT COUNT RESTART   opens, creations and connects under a timer of 500 microseconds
 *   emfile FILE                           opens until the process has no descriptor left
 *   blackhole FILE ADDRESS PORT COUNT     COUNT opens while another thread waits in a connect; then an alarm ends a second one
 *   bomb LIMIT                            processes that fork without pause, never more than LIMIT alive; an ordinary user
 *                                         meets RLIMIT_NPROC before; says "spread" once a quarter of them live
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_long handled;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void handle_alarm(int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGALRM, &action, NULL);
}

/* A TCP connection; the errno where there is none. */
static int connects(const char *address, const char *port) {
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    inet_pton(AF_INET, address, &peer.sin_addr);
    int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (stream < 0) return errno;
    int error = connect(stream, (struct sockaddr *)&peer, sizeof peer) == 0 ? 0 : errno;
    close(stream);
    return error;
}

static int opens(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC, 0644);
    if (file < 0) return errno;
    close(file);
    return 0;
}

struct tally {
    int good, bad, last_error;
};

static void count(struct tally *one, int error) {
    if (error == 0) one->good++;
    else one->bad++, one->last_error = error;
}

static long interrupted;

/* A call that a signal has ended before it had an effect is made again, as a program with such a handler must. */
#define AGAIN(call)                                        \
    ({                                                     \
        int outcome;                                       \
        while ((outcome = (call)) == EINTR) interrupted++; \
        outcome;                                           \
    })

static int signals_mode(char **argv) {
    const char *file = argv[2], *directory = argv[3], *port = argv[4];
    int rounds = atoi(argv[5]);
    struct itimerval often = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
    struct tally opened = {0}, created = {0}, existed = {0}, connected = {0};
    char path[4096];
    handle_alarm(atoi(argv[6]) ? SA_RESTART : 0);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < rounds; round++) {
        count(&opened, AGAIN(opens(file, O_RDONLY)));
        if (round % 8 != 0) continue;
        snprintf(path, sizeof path, "%s/storm-%d", directory, round);
        count(&created, AGAIN(opens(path, O_CREAT | O_EXCL | O_WRONLY)));
        count(&existed, AGAIN(opens(path, O_CREAT | O_EXCL | O_WRONLY)));
        count(&connected, AGAIN(connects("127.0.0.1", port)));
    }
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, NULL);
    printf("opened %d failed %d (%s)\n", opened.good, opened.bad, strerror(opened.last_error));
    printf("created %d failed %d (%s)\n", created.good, created.bad, strerror(created.last_error));
    printf("existing: created %d failed %d (%s)\n", existed.good, existed.bad, strerror(existed.last_error));
    printf("connected %d failed %d (%s)\n", connected.good, connected.bad, strerror(connected.last_error));
    fprintf(stderr, "signals %ld interrupted %ld\n", atomic_load(&handled), interrupted);
    if (atoi(argv[6]) && interrupted > 0) return 5; /* SA_RESTART: never seen by the program */
    return atomic_load(&handled) > 0 ? 0 : 4;
}

static int emfile_mode(const char *path) {
    struct rlimit limit = {64, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    int first[64], used = 0;
    while (used < 64 && (first[used] = open(path, O_RDONLY | O_CLOEXEC)) >= 0) used++;
    printf("%s after %d\n", strerrorname_np(errno), used);
    if (used == 0) return 4;
    close(first[0]);
    printf("again %d\n", open(path, O_RDONLY | O_CLOEXEC) == first[0]);
    return 0;
}

struct call {
    const char *address, *port;
    atomic_long tid;
    atomic_int result; /* -1: waits */
};

static void *calls(void *argument) {
    struct call *one = argument;
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
    atomic_store(&one->tid, syscall(SYS_gettid));
    atomic_store(&one->result, connects(one->address, one->port));
    return NULL;
}

static int in_connect(long tid) {
    char path[80], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", tid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    return got > 0 && text[0] >= '0' && text[0] <= '9' && atol(text) == SYS_connect;
}

static int blackhole_mode(char **argv) {
    static struct call one;
    one.address = argv[3], one.port = argv[4];
    atomic_store(&one.result, -1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, calls, &one) != 0) return 3;
    while (atomic_load(&one.tid) == 0 || (atomic_load(&one.result) == -1 && !in_connect(atomic_load(&one.tid)))) sched_yield();
    struct tally opened = {0};
    for (int index = 0; index < atoi(argv[5]); index++) count(&opened, opens(argv[2], O_RDONLY));
    printf("opened %d pending %d\n", opened.good, atomic_load(&one.result) == -1);
    struct itimerval soon = {.it_value = {.tv_usec = 100000}};
    handle_alarm(0);
    setitimer(ITIMER_REAL, &soon, NULL);
    int error = connects(argv[3], argv[4]);
    printf("second %s handled %ld pending %d\n", error == 0 ? "connected" : strerrorname_np(error), atomic_load(&handled),
           atomic_load(&one.result) == -1);
    fflush(stdout);
    _exit(0); /* the first still waits */
}

static int bomb_mode(int limit) {
    atomic_int *living = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (living == MAP_FAILED || limit > 280) return 3;
    struct rlimit processes = {(rlim_t)limit * 3 / 4, (rlim_t)limit * 3 / 4};
    setrlimit(RLIMIT_NPROC, &processes);
    atomic_store(living, 1);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    printf("lit\n");
    fflush(stdout);
    for (unsigned round = 0;; round++) {
        struct sysinfo machine; /* who ends is counted out before it has: see agent_victim.c */
        while (sysinfo(&machine) == 0 && machine.procs > 4000) poll(NULL, 0, 10);
        if (atomic_fetch_add(living, 1) >= limit) {
            atomic_fetch_sub(living, 1);
            sched_yield();
            continue;
        }
        if (atomic_load(living) > limit / 4 && atomic_exchange(living + 1, 1) == 0) {
            printf("spread\n");
            fflush(stdout);
        }
        pid_t child = fork();
        if (child < 0) atomic_fetch_sub(living, 1);
        if (child == 0 && round % 4 == 3) { /* some end at once, so that new ones are born to the last */
            atomic_fetch_sub(living, 1);
            _exit(0);
        }
        if (child == 0 && round % 5 == 0) setsid();
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (strcmp(argv[1], "signals") == 0 && argc == 7) return signals_mode(argv);
    if (strcmp(argv[1], "emfile") == 0) return emfile_mode(argv[2]);
    if (strcmp(argv[1], "blackhole") == 0 && argc == 6) return blackhole_mode(argv);
    if (strcmp(argv[1], "bomb") == 0) return bomb_mode(atoi(argv[2]));
    return 2;
}
