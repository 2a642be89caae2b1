/* Many calls, each result checked by the program. Between its warm-up and the rest, and again at the end, it prints a line
 * and waits for a byte, so that the supervisor can be measured at rest.
 *
 *   opens DIR THREADS COUNT     each thread opens its own file of DIR and reads it; every 16th open is one that is denied
 *   notify DIR THREADS COUNT    the same without reading: COUNT calls in all threads together
 *   spawn PROGRAM COUNT         fork, exec, wait: the status is the argument
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *directory;
static int reads;
static long rounds;
static pthread_barrier_t phase;
static atomic_long right, wrong;

static void pause_for_measure(const char *name) {
    char byte;
    printf("%s right %ld wrong %ld\n", name, atomic_load(&right), atomic_load(&wrong));
    fflush(stdout);
    if (read(0, &byte, 1) != 1) exit(5);
}

static void judge(int good, const char *what, const char *path, int error) {
    if (good) {
        atomic_fetch_add_explicit(&right, 1, memory_order_relaxed);
        return;
    }
    if (atomic_fetch_add(&wrong, 1) < 5) fprintf(stderr, "%s %s: %s\n", what, path, strerror(error));
}

/* The file's name without its directory is its content. */
static void open_own(const char *path) {
    char text[16] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int error = errno;
    ssize_t got = file >= 0 && reads ? read(file, text, sizeof text - 1) : 0;
    const char *name = strrchr(path, '/') + 1;
    int good = file >= 0 && (!reads || (got == (ssize_t)strlen(name) && memcmp(text, name, (size_t)got) == 0));
    if (file >= 0) close(file);
    judge(good, "open", path, error);
}

static void open_denied(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    judge(file < 0 && errno == EACCES, "open of what is denied", path, errno);
    if (file >= 0) close(file);
}

static void make_calls(long count, const char *own, const char *denied) {
    for (long index = 0; index < count; index++) {
        if (index % 16 == 15) open_denied(denied);
        else open_own(own);
    }
}

static void *work(void *argument) {
    char own[4096], denied[4096];
    long number = (long)argument;
    snprintf(own, sizeof own, "%s/f%ld", directory, number);
    snprintf(denied, sizeof denied, "%s/f%ld.no", directory, number);
    make_calls(rounds / 10, own, denied);
    pthread_barrier_wait(&phase); /* warm */
    pthread_barrier_wait(&phase); /* measured */
    make_calls(rounds - rounds / 10, own, denied);
    pthread_barrier_wait(&phase);
    return NULL;
}

static int calls_mode(long threads) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    pthread_barrier_init(&phase, NULL, (unsigned)threads + 1);
    for (long index = 0; index < threads; index++) {
        int error = pthread_create(&thread, &small, work, (void *)index);
        if (error != 0) return fprintf(stderr, "pthread_create: %s\n", strerror(error)), 3;
    }
    pthread_barrier_wait(&phase);
    pause_for_measure("warm");
    pthread_barrier_wait(&phase);
    pthread_barrier_wait(&phase);
    pause_for_measure("done");
    return 0;
}

static void spawn_one(char *program, int number, int by_fork) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    char *arguments[] = {program, text, NULL}, *nothing[] = {NULL};
    pid_t child = 0;
    int status = 0, error = 0;
    if (by_fork) {
        child = fork();
        if (child == 0) {
            execve(program, arguments, nothing);
            _exit(255);
        }
        error = errno;
    } else {
        error = posix_spawn(&child, program, NULL, NULL, arguments, nothing);
    }
    int good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == number;
    judge(good, "start", program, error);
}

static int spawn_mode(char *program, long count) {
    for (long index = 0; index < count; index++) {
        if (index == count / 10) pause_for_measure("warm");
        spawn_one(program, (int)(index % 100), index % 2 == 0);
    }
    pause_for_measure("done");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "spawn") == 0) return spawn_mode(argv[2], atol(argv[3]));
    if (argc != 5) return 2;
    directory = argv[2];
    reads = strcmp(argv[1], "opens") == 0;
    long threads = atol(argv[3]);
    if (threads < 1 || threads > 256) return 2;
    rounds = reads ? atol(argv[4]) : atol(argv[4]) / threads;
    return calls_mode(threads);
}
