/* What the guardian must cope with: one mode per kind of process that is hard to end or to count.
 *   bomb N FILE   up to N processes at once, all ignoring SIGTERM, each replacing itself for ever; half leave the session; FILE appears when full
 *   headless FILE the first thread ends, another goes on (the process looks like a zombie); FILE gets the pid
 *   descriptors FILE  the open descriptors, and what the first three are
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static void write_pid(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) exit(2);
    fprintf(file, "%d\n", getpid());
    fclose(file);
}

static int bomb(long bound, const char *ready) {
    atomic_long *alive = mmap(NULL, sizeof *alive, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (alive == MAP_FAILED) return 2;
    atomic_store(alive, 1);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    const pid_t first = getpid();
    for (unsigned generation = 0;; ++generation) {
        /* Who leaves is counted out before it has ended: where many wait for a processor, those would fill the machine. */
        struct sysinfo machine;
        while (sysinfo(&machine) == 0 && machine.procs > 4000) poll(NULL, 0, 10);
        if (atomic_fetch_add(alive, 1) < bound) {
            const pid_t child = fork();
            if (child == 0 && generation % 2) setsid();
            if (child < 0) atomic_fetch_sub(alive, 1);
        } else {
            atomic_fetch_sub(alive, 1);
            if (getpid() == first && access(ready, F_OK) != 0) write_pid(ready);
            if (getpid() == first) continue;
            atomic_fetch_sub(alive, 1); /* makes room for a child of somebody else */
            _exit(0);
        }
    }
}

static void *go_on(void *path) {
    write_pid(path);
    for (;;) pause();
    return NULL;
}

static int headless(char *path) {
    signal(SIGTERM, SIG_IGN);
    pthread_t thread;
    if (pthread_create(&thread, NULL, go_on, path)) return 2;
    pthread_exit(NULL);
}

static int descriptors(const char *path) {
    char names[3][256] = {"", "", ""};
    for (int fd = 0; fd < 3; ++fd) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, names[fd], sizeof names[fd] - 1) < 0) strcpy(names[fd], "closed");
    }
    char open_ones[8192] = "";
    for (int fd = 3; fd < 4096; ++fd) {
        if (fcntl(fd, F_GETFD) < 0) continue;
        snprintf(open_ones + strlen(open_ones), sizeof open_ones - strlen(open_ones), " %d", fd);
    }
    FILE *file = fopen(path, "w");
    if (!file) return 2;
    fprintf(file, "%s %s %s beyond:%s\n", names[0], names[1], names[2], open_ones);
    return fclose(file) ? 2 : 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "bomb")) return bomb(atol(argv[2]), argv[3]);
    if (argc == 3 && !strcmp(argv[1], "headless")) return headless(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "descriptors")) return descriptors(argv[2]);
    return 2;
}
