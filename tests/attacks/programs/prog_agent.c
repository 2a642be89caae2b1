/* An agent: it may read LOGIN, keeps its content in memory and open, and then runs a tool.
 *
 *   prog_agent LOGIN HOW COMMAND...
 *
 * HOW: child, vfork, spawn, twice (a child of a child), exec (in its own place), thread (the same from another thread), fork (the
 * child executes nothing and prints LOGIN; a path means the same, as the name of a script that this interprets), kept (the child inherits a descriptor of LOGIN). In COMMAND, PID, ADDRESS and FD
 * stand for the agent's. Afterwards it says what came to it, and whether it may still read LOGIN. Exit 3: it may not at all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile sig_atomic_t signals;
static char **command;
static void count(int number) { (void)number, signals++; }

static void replace(char **word, const char *name, uintmax_t value) {
    char text[32];
    snprintf(text, sizeof text, "%ju", value);
    if (strcmp(*word, name) == 0) *word = strdup(text);
    char *at = strstr(*word, name);
    if (at == NULL || strncmp(*word, "/proc/PID/", 10) != 0) return;
    char *whole = malloc(strlen(*word) + sizeof text);
    sprintf(whole, "%.*s%s%s", (int)(at - *word), *word, text, at + strlen(name));
    *word = whole;
}

static int execute(void) {
    execvp(command[0], command);
    fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
    return 1;
}
static void *from_thread(void *unused) {
    (void)unused;
    _exit(execute());
}
/* What the kernel adds when it looks for a victim; the process's children have it, too. */
static int out_of_memory_score(void) {
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) text[0] = '\0';
    close(fd);
    return atoi(text);
}
static int show(const char *login) {
    char content[256];
    int fd = open(login, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, content, sizeof content);
    if (got <= 0) return fprintf(stderr, "%s: %s\n", login, strerror(errno)), 1;
    printf("got: %.*s\n", (int)got, content);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const char *how = argv[2];
    command = argv + 3;
    const int score = out_of_memory_score();
    int fd = open(argv[1], strcmp(how, "kept") == 0 ? O_RDONLY : O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fprintf(stderr, "%s: %s\n", argv[1], strerror(errno)), 3;
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || read(fd, memory, 256) <= 0 || lseek(fd, 0, SEEK_SET) != 0) return 4;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* so that Yama's level 1 does not hold instead of us */
    setpgid(0, 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    for (char **word = command; *word != NULL; word++)
        replace(word, "PID", (uintmax_t)getpid()), replace(word, "ADDRESS", (uintmax_t)(uintptr_t)memory), replace(word, "FD", (uintmax_t)fd);
    if (strcmp(how, "exec") == 0) return execute();
    pid_t child = 0;
    int status = 0;
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, from_thread, NULL) != 0) return 4;
        for (;;) pause();
    } else if (strcmp(how, "spawn") == 0) {
        if (posix_spawnp(&child, command[0], NULL, NULL, command, environ) != 0) child = -1;
    } else if (strcmp(how, "vfork") == 0) {
        child = vfork();
        if (child == 0) _exit((execvp(command[0], command), 1));
    } else {
        child = fork();
        if (child == 0 && strcmp(how, "twice") == 0) {
            pid_t next = fork();
            if (next != 0) _exit(waitpid(next, &status, 0) == next && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
        }
        if (child == 0) _exit(strcmp(how, "fork") == 0 || *how == '/' ? show(argv[1]) : execute());
    }
    if (child < 0 || waitpid(child, &status, 0) != child) status = 1 << 8;
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    int again = open(argv[1], O_RDONLY | O_CLOEXEC);
    printf("agent: signals %d memory %d nice %d limit %ju oom %d login %s\n", (int)signals, memory[0], getpriority(PRIO_PROCESS, 0),
           (uintmax_t)limit.rlim_cur, out_of_memory_score() - score, again < 0 ? strerror(errno) : "read");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
