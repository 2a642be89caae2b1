/* Executes a program in one of many ways, in a child, and says what came of it: `exit N`, `signal N` or `errno NAME`.
 *   prog_exec WAY PROGRAM [ARG...]
 *     fork vfork spawn shell        the ordinary ways
 *     thread                        by a thread that is not the first one
 *     double                        by two threads at once
 *     at empty fd nofollow link     execveat: directory and name, AT_EMPTY_PATH, /proc/self/fd/N, AT_SYMLINK_NOFOLLOW on a file, on a link
 *     memfd memfdpath               the program's bytes in a memfd
 *     pending                       with a pending blocked signal, an ignored one, and descriptors of both kinds
 *     noargs                        with an empty argv
 *     traced                        under a debugger (PTRACE_TRACEME)
 *     undumpable                    by a process that is not dumpable
 *   prog_exec killed|stopped ROUNDS PROGRAM [ARG...]   SIGKILL, or SIGSTOP and SIGCONT, at any moment of it
 *   prog_exec errors DIRECTORY      what each way to fail answers, one per line
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char **arguments;
static const char *program;
static int report; /* CLOEXEC: what is written to it is an errno */

static void failed(void) {
    int error = errno;
    if (write(report, &error, sizeof error) < 0) _exit(3);
    _exit(101);
}

static long execveat_(int directory, const char *path, char **argv, int flags) {
    return syscall(SYS_execveat, directory, path, argv, environ, flags);
}

static void *thread_executes(void *barrier) {
    if (barrier != NULL) pthread_barrier_wait(barrier);
    execve(program, arguments, environ);
    failed();
    return NULL;
}

static void in_thread(int how_many) {
    pthread_t thread;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < how_many; i++) pthread_create(&thread, NULL, thread_executes, how_many > 1 ? &barrier : NULL);
    for (;;) pause();
}

static int in_memory(void) {
    char buffer[65536];
    int from = open(program, O_RDONLY | O_CLOEXEC), to = memfd_create("x", 0);
    for (ssize_t got; (got = read(from, buffer, sizeof buffer)) > 0;)
        if (write(to, buffer, (size_t)got) != got) exit(3);
    close(from);
    return to;
}

static void with_things_pending(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    signal(SIGUSR2, SIG_IGN);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 20);                 /* stays */
    fcntl(open("/dev/null", O_RDONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, 21); /* goes */
    execve(program, arguments, environ);
}

static void child(const char *way) {
    char name[4200];
    char *none[] = {NULL};
    if (!strcmp(way, "fork") || !strcmp(way, "shell")) execve(program, arguments, environ);
    if (!strcmp(way, "thread")) in_thread(1);
    if (!strcmp(way, "double")) in_thread(2);
    if (!strcmp(way, "pending")) with_things_pending();
    if (!strcmp(way, "noargs")) execve(program, none, environ);
    if (!strcmp(way, "traced")) ptrace(PTRACE_TRACEME, 0, NULL, NULL), execve(program, arguments, environ);
    if (!strcmp(way, "undumpable")) prctl(PR_SET_DUMPABLE, 0), execve(program, arguments, environ);
    if (!strcmp(way, "nofollow")) execveat_(AT_FDCWD, program, arguments, AT_SYMLINK_NOFOLLOW);
    if (!strcmp(way, "link")) execveat_(AT_FDCWD, "/proc/self/exe", arguments, AT_SYMLINK_NOFOLLOW);
    if (!strcmp(way, "empty")) execveat_(open(program, O_PATH), "", arguments, AT_EMPTY_PATH);
    if (!strcmp(way, "memfd")) execveat_(in_memory(), "", arguments, AT_EMPTY_PATH);
    if (!strcmp(way, "fd") || !strcmp(way, "memfdpath")) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", way[0] == 'f' ? open(program, O_PATH) : in_memory());
        execve(name, arguments, environ);
    }
    if (!strcmp(way, "at")) {
        snprintf(name, sizeof name, "%s", program);
        char *slash = strrchr(name, '/');
        *slash = 0;
        execveat_(open(name, O_PATH | O_DIRECTORY), slash + 1, arguments, 0);
    }
    failed();
}

static pid_t start(const char *way) {
    pid_t pid = 0;
    if (!strcmp(way, "spawn")) {
        errno = posix_spawn(&pid, program, NULL, NULL, arguments, environ);
        return errno != 0 ? -1 : pid;
    }
    if (!strcmp(way, "vfork")) {
        pid = vfork();
        if (pid == 0) execve(program, arguments, environ), failed();
        return pid;
    }
    pid = fork();
    if (pid == 0) child(way);
    return pid;
}

static int say(pid_t pid, int reading) {
    int status = 0, error = 0;
    if (pid < 0) return printf("errno %s\n", strerrorname_np(errno)), 0;
    if (read(reading, &error, sizeof error) == sizeof error) {
        waitpid(pid, &status, 0);
        return printf("errno %s\n", strerrorname_np(error)), 0;
    }
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) /* traced */
        ptrace(PTRACE_CONT, pid, NULL, (void *)(uintptr_t)(WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status)));
    if (WIFSIGNALED(status)) return printf("signal %d\n", WTERMSIG(status)), 0;
    return printf("exit %d\n", WEXITSTATUS(status)), 0;
}

/* A signal at any moment of an execve: whatever it hits, nothing stays behind, and what was stopped goes on. */
static int disturbed(int stop, long rounds) {
    long whole = 0, gone = 0, seen_stopped = 0;
    for (long round = 0; round < rounds; round++) {
        pid_t pid = fork();
        if (pid < 0) return printf("fork: %s\n", strerror(errno)), 3; /* to kill(2), -1 is everybody */
        if (pid == 0) {
            execve(program, arguments, environ);
            _exit(101);
        }
        if (pid < 0) return printf("cannot fork: %s\n", strerror(errno)), 3;
        for (volatile int i = 0; i < (round * 7919) % 60000; i++) {}
        if (round % 3 == 0) sched_yield();
        if (round % 7 == 0) usleep((useconds_t)(round % 1000));
        int status = 0;
        kill(pid, stop ? SIGSTOP : SIGKILL);
        if (stop) {
            if (waitpid(pid, &status, WUNTRACED) != pid) return printf("lost\n"), 3;
            if (WIFSTOPPED(status)) {
                seen_stopped++;
                if (WSTOPSIG(status) != SIGSTOP) return printf("stopped by %d\n", WSTOPSIG(status)), 3;
                kill(pid, SIGCONT);
                if (waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status)) waitpid(pid, &status, 0);
            }
        } else if (waitpid(pid, &status, 0) != pid) {
            return printf("lost\n"), 3;
        }
        whole += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        gone += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    printf("whole %ld killed %ld stopped %ld of %ld\n", whole, gone, seen_stopped, rounds);
    return 0;
}

static char place[4096];
static const char *in(const char *name) {
    static char path[2][8300];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof *path, "%s/%s", place, name);
    return path[turn];
}

static void file(const char *name, const char *content, mode_t mode) {
    int fd = open(in(name), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, content, strlen(content)) < 0 || fchmod(fd, mode) != 0) exit(3);
    close(fd);
}

static void try(const char *what, int directory, const char *path, char **argv, int flags) {
    int status, ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) exit(3);
    pid_t pid = fork();
    if (pid == 0) {
        report = ends[1];
        execveat_(directory, path, argv, flags);
        failed();
    }
    close(ends[1]);
    int error = 0;
    ssize_t got = read(ends[0], &error, sizeof error);
    close(ends[0]);
    waitpid(pid, &status, 0);
    printf("%s: %s %d\n", what, got == sizeof error ? strerrorname_np(error) : "executed", WEXITSTATUS(status));
}

static int errors(void) {
    char *argv[] = {(char *)"name", (char *)"quiet", NULL}, *bad[] = {(char *)"name", (char *)8, NULL};
    char line[4400];
    file("text", "echo nothing\n", 0755);
    file("mode", "#!/bin/sh\n", 0644);
    file("script", "#!/bin/sh\nexit 5\n", 0755);
    file("missing", "#!/no/such/interpreter\n", 0755);
    snprintf(line, sizeof line, "#!%s\n", in("mode"));
    file("closed", line, 0755);
    file("nested0", "#!/bin/sh\nexit 6\n", 0755);
    for (int depth = 1; depth < 7; depth++) {
        char name[32], previous[32];
        snprintf(name, sizeof name, "nested%d", depth);
        snprintf(previous, sizeof previous, "nested%d", depth - 1);
        snprintf(line, sizeof line, "#!%s an argument\n", in(previous));
        file(name, line, 0755);
    }
    mkfifo(in("fifo"), 0755);
    mkdir(in("directory"), 0755);
    symlink("loop", in("loop"));
    symlink("script", in("symlink"));
    char *huge = malloc(200000), *long_name = malloc(6000);
    memset(huge, 'x', 199999), huge[199999] = 0;
    memset(long_name, 'y', 5999), long_name[5999] = 0;
    char *big[] = {(char *)"name", huge, NULL}, *too_big[] = {(char *)"name", strdup(huge), NULL};
    char *many[2000];
    huge[100000] = 0;
    for (int i = 0; i < 1999; i++) many[i] = huge;
    many[1999] = NULL;
    const int at = AT_FDCWD;
    try("empty path", at, "", argv, 0);
    try("missing file", at, in("nothing"), argv, 0);
    try("file as directory", at, in("text/x"), argv, 0);
    try("trailing slash", at, in("script/"), argv, 0);
    try("long name", at, long_name, argv, 0);
    try("bad path", at, (char *)8, argv, 0);
    try("bad argument", at, in("script"), bad, 0);
    try("bad arguments", at, in("script"), (char **)8, 0);
    try("directory", at, in("directory"), argv, 0);
    try("fifo", at, in("fifo"), argv, 0);
    try("mode", at, in("mode"), argv, 0);
    try("loop", at, in("loop"), argv, 0);
    try("text", at, in("text"), argv, 0);
    try("missing interpreter", at, in("missing"), argv, 0);
    try("closed interpreter", at, in("closed"), argv, 0);
    try("script", at, in("script"), argv, 0);
    try("symlink", at, in("symlink"), argv, 0);
    try("symlink not followed", at, in("symlink"), argv, AT_SYMLINK_NOFOLLOW);
    try("bad descriptor", 999, "script", argv, 0);
    try("descriptor of no directory", open(in("script"), O_RDONLY | O_CLOEXEC), "script", argv, 0);
    try("script by closing descriptor", open(in("script"), O_RDONLY | O_CLOEXEC), "", argv, AT_EMPTY_PATH);
    try("script by descriptor", open(in("script"), O_RDONLY), "", argv, AT_EMPTY_PATH);
    try("unknown flag", at, in("script"), argv, 0x40);
    try("unknown flag on nothing", at, in("nothing"), argv, 0x40);
    try("unknown flag, bad path", at, (char *)8, argv, 0x40);
    try("only a check", at, program, argv, 0x10000);
    try("current directory", at, "", argv, AT_EMPTY_PATH);
    try("long argument", at, in("script"), big, 0);
    try("too long argument", at, in("script"), too_big, 0);
    try("too many bytes", at, in("script"), many, 0);
    try("no arguments", at, in("script"), NULL, 0);
    for (int depth = 0; depth < 7; depth++) {
        char name[32];
        snprintf(name, sizeof name, "nested%d", depth);
        try(name, at, in(name), argv, 0);
    }
    int busy = open(in("script"), O_WRONLY | O_CLOEXEC);
    try("busy", at, in("script"), argv, 0);
    close(busy);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(argv[1], "errors")) {
        snprintf(place, sizeof place, "%s", argv[2]);
        program = "/proc/self/exe";
        return errors();
    }
    const int repeated = !strcmp(argv[1], "killed") || !strcmp(argv[1], "stopped");
    if (repeated && argc < 4) return 2;
    program = argv[repeated ? 3 : 2];
    arguments = argv + (repeated ? 3 : 2);
    if (repeated) return disturbed(argv[1][0] == 's', atol(argv[2]));
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return 3;
    report = fcntl(ends[1], F_DUPFD_CLOEXEC, 100);
    int reading = fcntl(ends[0], F_DUPFD_CLOEXEC, 100);
    close(ends[0]), close(ends[1]);
    pid_t pid = start(argv[1]);
    close(report);
    return say(pid, reading);
}
