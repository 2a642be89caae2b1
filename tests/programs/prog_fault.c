/* Contested calls while something else goes wrong: what prints is what the program itself saw, one line per event.
 *
 *   write DIR THREADS DAEMON   creates numbered files without pause, and from a double-forked session of its own
 *   steady FILE                opens FILE without pause; a line whenever the outcome changes; ends when stdin does
 *   beside FIFO FILE COUNT     COUNT opens of FILE while another thread waits in an open of FIFO
 *   alarm FIFO                 an open of FIFO interrupted by a signal, without and with SA_RESTART
 *   kill FIFO                  a child killed while it waits in an open of FIFO
 *   crowd FIFO FILE COUNT      COUNT waiting opens of FIFO, then one more
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *place;
static atomic_int over;
static atomic_int handled;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void *start_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    int error = pthread_create(&thread, &small, body, argument);
    if (error != 0) {
        fprintf(stderr, "pthread_create: %s\n", strerror(error));
        exit(3);
    }
    pthread_detach(thread);
    return NULL;
}

/* Whether thread `tid` of process `pid` waits inside system call `number`. */
static int waits_in(pid_t pid, long tid, long number) {
    char path[80], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%ld/syscall", (int)pid, tid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    return got > 0 && text[0] >= '0' && text[0] <= '9' && atol(text) == number;
}

static void *writes(void *argument) {
    char path[4096];
    for (unsigned long number = 0;; number++) {
        snprintf(path, sizeof path, "%s/%s-%lu", place, (const char *)argument, number);
        int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        if (file >= 0) close(file);
    }
    return NULL;
}

static int write_mode(int threads, int daemon) {
    static char names[64][16];
    pid_t child = daemon ? fork() : -1;
    if (child == 0) {
        setsid();
        if (fork() == 0) writes("daemon");
        _exit(0);
    }
    if (child > 0) waitpid(child, NULL, 0);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    for (int index = 1; index < threads && index < 64; index++) {
        snprintf(names[index], sizeof names[index], "t%d", index);
        start_thread(writes, names[index]);
    }
    writes("t0");
    return 0;
}

static int steady_mode(const char *path) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    int last = -1;
    while (poll(&input, 1, 0) == 0) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        int outcome = file < 0 ? errno : 0;
        if (file >= 0) close(file);
        if ((outcome == 0) != (last == 0) || last < 0) {
            printf("%s\n", outcome == 0 ? "ok" : "failed");
            fflush(stdout);
        }
        last = outcome;
    }
    return 0;
}

struct waiting {
    atomic_long tid;
    atomic_int result; /* 1: waits; 0: opened; negative: -errno */
};

static void *opens_fifo(void *argument) {
    struct waiting *own = argument;
    atomic_store(&own->tid, syscall(SYS_gettid));
    int file = open(place, O_RDONLY | O_CLOEXEC);
    atomic_store(&own->result, file < 0 ? -errno : 0);
    if (file < 0) atomic_fetch_add(&over, 1);
    return NULL;
}

static void wait_until_in_open(struct waiting *one) {
    while (atomic_load(&one->tid) == 0 ||
           (atomic_load(&one->result) == 1 && !waits_in(getpid(), atomic_load(&one->tid), SYS_openat)))
        sched_yield();
}

static int count_opens(const char *path, int count) {
    int good = 0;
    for (int index = 0; index < count; index++) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        good++;
        close(file);
    }
    return good;
}

static int beside_mode(const char *path, int count) {
    static struct waiting one = {0, 1};
    start_thread(opens_fifo, &one);
    wait_until_in_open(&one);
    int good = count_opens(path, count);
    printf("opened %d pending %d\n", good, atomic_load(&one.result) == 1);
    int file = open(place, O_WRONLY | O_CLOEXEC); /* the reader that waits lets this one through, and is let through */
    while (atomic_load(&one.result) == 1) sched_yield();
    printf("writer %d reader %d\n", file >= 0, atomic_load(&one.result) == 0);
    return 0;
}

static void *lets_the_reader_in(void *argument) {
    (void)argument;
    while (atomic_load(&handled) < 2) sched_yield();
    if (open(place, O_WRONLY | O_CLOEXEC) < 0) perror("writer");
    return NULL;
}

static int alarm_mode(void) {
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval soon = {.it_value = {.tv_usec = 100000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    int file = open(place, O_RDONLY | O_CLOEXEC);
    printf("%s handled %d\n", file < 0 ? strerrorname_np(errno) : "opened", atomic_load(&handled));
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    start_thread(lets_the_reader_in, NULL);
    pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    file = open(place, O_RDONLY | O_CLOEXEC);
    printf("%s handled %d\n", file < 0 ? strerrorname_np(errno) : "opened", atomic_load(&handled));
    return 0;
}

static int kill_mode(void) {
    pid_t child = fork();
    if (child < 0) return 3; /* to kill(2), -1 is everybody */
    if (child == 0) {
        open(place, O_RDONLY | O_CLOEXEC);
        _exit(9);
    }
    while (!waits_in(child, child, SYS_openat)) sched_yield();
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    printf("signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    return 0;
}

static int crowd_mode(const char *path, int count) {
    static struct waiting crowd[1024];
    if (count > 1000) return 2;
    for (int index = 0; index < count; index++) {
        atomic_store(&crowd[index].result, 1);
        start_thread(opens_fifo, &crowd[index]);
    }
    for (int index = 0; index < count; index++) wait_until_in_open(&crowd[index]);
    int good = count_opens(path, 100);
    printf("waiting %d opened %d\n", count - atomic_load(&over), good);
    fflush(stdout);
    struct waiting *more = &crowd[count];
    atomic_store(&more->result, 1);
    start_thread(opens_fifo, more);
    while (atomic_load(&more->result) == 1) sched_yield();
    printf("one more %s\n", strerrorname_np(-atomic_load(&more->result)));
    printf("waiting %d opened %d\n", count + 1 - atomic_load(&over), count_opens(path, 100));
    fflush(stdout);
    _exit(0); /* the crowd still waits */
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *mode = argv[1];
    place = argv[2];
    if (strcmp(mode, "write") == 0 && argc == 5) return write_mode(atoi(argv[3]), atoi(argv[4]));
    if (strcmp(mode, "steady") == 0) return steady_mode(place);
    if (strcmp(mode, "beside") == 0 && argc == 5) return beside_mode(argv[3], atoi(argv[4]));
    if (strcmp(mode, "alarm") == 0) return alarm_mode();
    if (strcmp(mode, "kill") == 0) return kill_mode();
    if (strcmp(mode, "crowd") == 0 && argc == 5) return crowd_mode(argv[3], atoi(argv[4]));
    return 2;
}
