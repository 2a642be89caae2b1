/* A tree of processes that are hard to end, by name: prog_stubborn SHAPE...
 *
 *   deaf       ignores every signal that can be ignored
 *   setsid     the same in a session of its own
 *   daemon     the same, forked twice
 *   stopped    has stopped itself
 *   traced     has stopped in front of a tracer that is deaf and never lets it go on
 *   vforked    waits without end for a child that has its memory and never gives it back
 *   writing    waits to write into a pipe that is full and that nobody reads
 *   forking    four that each become a new process as fast as they can, and die
 *
 * Every shape but `stopped` is deaf. Says `ready` when all are as they should be, and is deaf itself from then on.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int up[2];

static void be_deaf(void) {
    for (int number = 1; number < NSIG; number++)
        if (number != SIGCHLD) signal(number, SIG_IGN);
}

static void say_up(void) {
    if (write(up[1], "x", 1) != 1) _exit(1);
}

static void stay(void) {
    say_up();
    for (;;) pause();
}

/* Those that fork without end may leave no room for a moment. */
static pid_t fork_at_last(void) {
    pid_t child;
    do {
        child = fork();
    } while (child < 0);
    return child;
}

static void be_traced(void) {
    pid_t tracee = fork_at_last();
    if (tracee == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(1);
        raise(SIGSTOP);
        for (;;) pause();
    }
    int status;
    if (waitpid(tracee, &status, 0) != tracee || !WIFSTOPPED(status)) _exit(1);
    stay();
}

static void be_vforked(void) {
    pid_t child;
    do {
        child = vfork();
        if (child == 0) stay(); /* the parent cannot even be stopped by a handler until then */
    } while (child < 0);
    _exit(1);
}

static void write_without_end(void) {
    int full[2];
    static char bytes[1 << 16];
    if (pipe(full) != 0) _exit(1);
    say_up();
    while (write(full[1], bytes, sizeof bytes) > 0) {
    }
    _exit(1);
}

static void fork_without_end(void) {
    for (int lineage = 0; lineage < 4; lineage++) {
        if (fork_at_last() != 0) continue;
        for (int first = 1;; first = 0) {
            if (first) say_up();
            if (fork() > 0) _exit(0); /* where it fails this one goes on */
        }
    }
    for (;;) pause();
}

static int begin(const char *shape) {
    if (strcmp(shape, "deaf") == 0) {
        stay();
    } else if (strcmp(shape, "setsid") == 0) {
        setsid();
        stay();
    } else if (strcmp(shape, "daemon") == 0) {
        setsid();
        if (fork_at_last() == 0) stay();
        _exit(0);
    } else if (strcmp(shape, "stopped") == 0) {
        say_up();
        raise(SIGSTOP);
        for (;;) pause();
    } else if (strcmp(shape, "traced") == 0) {
        be_traced();
    } else if (strcmp(shape, "vforked") == 0) {
        be_vforked();
    } else if (strcmp(shape, "writing") == 0) {
        write_without_end();
    } else if (strcmp(shape, "forking") == 0) {
        fork_without_end();
    }
    _exit(2);
}

int main(int count, char **shapes) {
    if (pipe(up) != 0) return 2;
    printf("partial\n");
    fflush(stdout);
    be_deaf();
    int expected = 0;
    for (int i = 1; i < count; i++) {
        expected += strcmp(shapes[i], "forking") == 0 ? 4 : 1;
        if (fork_at_last() == 0) begin(shapes[i]);
    }
    for (; expected > 0; expected--) {
        char byte;
        if (read(up[0], &byte, 1) != 1) return 3;
    }
    printf("ready\n");
    fflush(stdout);
    for (;;) pause();
}
