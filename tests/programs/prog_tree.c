/* A tree that is hard to end: a child, a child in a session of its own, a double-forked daemon, one that ignores every
 * signal it can, one that stops itself, and one that writes to DIRECTORY without pause. Says `ready` when all are there,
 * then waits (`wait`) or ends with 5 (`leave`).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int up[2];

static void stay(void) {
    if (write(up[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
}

static void write_files(const char *directory) {
    char path[4096];
    if (write(up[1], "x", 1) != 1) _exit(1);
    for (long i = 0;; i++) {
        snprintf(path, sizeof path, "%s/tree%ld", directory, i);
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd >= 0) close(fd);
    }
}

int main(int argc, char **argv) {
    if (argc < 3 || pipe2(up, O_CLOEXEC) != 0) return 2;
    if (fork() == 0) stay();
    if (fork() == 0) {
        setsid();
        stay();
    }
    pid_t between = fork();
    if (between == 0) {
        setsid();
        if (fork() == 0) stay();
        _exit(0);
    }
    waitpid(between, NULL, 0);
    if (fork() == 0) {
        for (int number = 1; number < NSIG; number++) signal(number, SIG_IGN);
        setsid();
        stay();
    }
    if (fork() == 0) {
        setpgid(0, 0);
        if (write(up[1], "x", 1) != 1) _exit(1);
        raise(SIGSTOP);
        stay();
    }
    if (fork() == 0) write_files(argv[1]);
    for (int i = 0; i < 6; i++) {
        char byte;
        if (read(up[0], &byte, 1) != 1) return 3;
    }
    printf("ready\n");
    fflush(stdout);
    if (strcmp(argv[2], "leave") == 0) return 5;
    for (;;) pause();
}
