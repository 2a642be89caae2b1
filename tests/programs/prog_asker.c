/* Calls that somebody is asked about, and what came of each.
 *
 *   same N PATH        N threads open PATH at once; prints "opened A refused B"
 *   different N DIR    N threads open DIR/0 .. DIR/N-1 at once; the same
 *   children N PATH    N children open PATH; prints their pids on one line; ends when all have ended
 *   flip PATH OTHER    opens a name in memory, which becomes OTHER when a line comes on stdin; prints "content TEXT" or
 *                      "errno NAME"
 *   alarm PATH         opens PATH with an alarm whose handler does not restart; prints "opened" or "errno NAME"
 *   busy PATH SECRET   one thread opens SECRET (and waits), another opens PATH 200 times; prints "free 200"
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int opened, refused;
static char name[4096], other[4096];

static void try_open(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        atomic_fetch_add(&refused, 1);
        return;
    }
    atomic_fetch_add(&opened, 1);
    close(fd);
}

static void *open_it(void *path) {
    try_open(path);
    return NULL;
}

static int threads(int count, const char *path, int numbered) {
    pthread_t *all = calloc((size_t)count, sizeof *all);
    char (*paths)[4096] = numbered ? calloc((size_t)count, sizeof *paths) : NULL;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    for (int i = 0; i < count; i++) {
        if (numbered) snprintf(paths[i], sizeof *paths, "%.4000s/%d", path, i);
        if (pthread_create(&all[i], &small, open_it, numbered ? paths[i] : (char *)path) != 0) return 3;
    }
    for (int i = 0; i < count; i++) pthread_join(all[i], NULL);
    printf("opened %d refused %d\n", opened, refused);
    return 0;
}

static int children(int count, const char *path) {
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0) return 3;
        if (pid == 0) {
            try_open(path);
            _exit(0);
        }
        printf("%d ", pid);
    }
    printf("\n");
    fflush(stdout);
    while (wait(NULL) > 0) {
    }
    return 0;
}

static void *flipper(void *unused) {
    (void)unused;
    char line[16];
    if (!fgets(line, sizeof line, stdin)) return NULL;
    memcpy(name, other, sizeof name);
    printf("flipped\n");
    fflush(stdout);
    return NULL;
}

static int flip(const char *path, const char *to) {
    strncpy(name, path, sizeof name - 1);
    strncpy(other, to, sizeof other - 1);
    pthread_t thread;
    pthread_create(&thread, NULL, flipper, NULL);
    char text[64] = "";
    int fd = open(name, O_RDONLY);
    if (fd < 0) {
        printf("errno %s\n", strerrorname_np(errno));
    } else {
        ssize_t got = read(fd, text, sizeof text - 1);
        printf("content %.*s\n", (int)(got > 0 ? got : 0), text);
    }
    fflush(stdout);
    _exit(0);
}

static void on_alarm(int number) { (void)number; }

static int with_alarm(const char *path) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    int fd = open(path, O_RDONLY);
    printf(fd >= 0 ? "opened\n" : "errno %s\n", strerrorname_np(errno));
    return 0;
}

static int busy(const char *path, char *secret) {
    pthread_t thread;
    pthread_create(&thread, NULL, open_it, secret);
    char line[16];
    if (!fgets(line, sizeof line, stdin)) return 3; /* the question is seen to be open */
    int good = 0;
    for (int i = 0; i < 200; i++) {
        int fd = open(path, O_RDONLY);
        good += fd >= 0;
        close(fd);
    }
    printf("free %d\n", good);
    fflush(stdout);
    pthread_join(thread, NULL);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "same")) return threads(atoi(argv[2]), argv[3], 0);
    if (argc == 4 && !strcmp(argv[1], "different")) return threads(atoi(argv[2]), argv[3], 1);
    if (argc == 4 && !strcmp(argv[1], "children")) return children(atoi(argv[2]), argv[3]);
    if (argc == 4 && !strcmp(argv[1], "flip")) return flip(argv[2], argv[3]);
    if (argc == 3 && !strcmp(argv[1], "alarm")) return with_alarm(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "busy")) return busy(argv[2], argv[3]);
    return 2;
}
