/* A process that keeps a secret in its memory, makes itself opaque, and then runs an attacker beside it.
 *
 *   prog_opaque HOW COMMAND...
 *   prog_opaque core HOW
 *   prog_opaque pause
 *
 * The secret is the variable HIDDEN, which the attacker does not get. HOW: plain (it is not opaque), beside (it is not, but
 * another process is), itself, child (a process that it forked afterwards), orphan (one whose parent has ended). In COMMAND,
 * PID, ADDRESS and FD stand for the victim's process, its secret, and a memory file that holds it. Afterwards it says what the
 * victim's memory holds. `core`: with no limit of cores, the process as above ends by SIGABRT. Exit 0: it left a core.
 * There HOW may also be sharing (one that shares the memory since before) and shared (the same, not opaque).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *memory;
static int asked[2], answered[2];

static int fail(const char *what) { return fprintf(stderr, "%s: %s\n", what, strerror(errno)), 4; }

static void replace(char **word, const char *name, uintmax_t value) {
    char text[32];
    snprintf(text, sizeof text, "%ju", value);
    if (strcmp(*word, name) == 0) *word = strdup(text);
}

/* Shows its number, then its memory each time it is asked. */
static void serve(void) {
    close(asked[1]); /* it ends when we end */
    char byte;
    pid_t self = getpid();
    if (write(answered[1], &self, sizeof self) < 0) _exit(1);
    while (read(asked[0], &byte, 1) == 1)
        if (write(answered[1], memory, 1) < 0) break;
    _exit(0);
}

static int make_opaque(void) {
    return prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0 ? 0 : fail("PR_SET_DUMPABLE");
}

static int is(const char *how, const char *name) { return strcmp(how, name) == 0; }

static int wait_for_end(void *unused) {
    (void)unused;
    return pause();
}

static int leave_core(const char *how) {
    static char stack[1 << 16];
    struct rlimit all;
    int status = 0;
    getrlimit(RLIMIT_CORE, &all);
    all.rlim_cur = all.rlim_max;
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &all);
        const int shared = is(how, "sharing") || is(how, "shared");
        if (shared) child = clone(wait_for_end, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
        if (!is(how, "plain") && !is(how, "shared") && make_opaque() != 0) _exit(4);
        if (setrlimit(RLIMIT_CORE, &all) != 0) _exit(5);
        if (shared) kill(child, SIGABRT);
        if (shared || (is(how, "child") && (child = fork()) != 0)) {
            waitpid(child, &status, 0);
            _exit(WCOREDUMP(status) ? 0 : 1);
        }
        abort();
    }
    if (waitpid(child, &status, 0) != child) return fail("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : WCOREDUMP(status) ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 2 && is(argv[1], "pause")) return pause();
    if (argc < 3) return 2;
    if (is(argv[1], "core")) return leave_core(argv[2]);
    const char *how = argv[1], *secret = getenv("HIDDEN");
    const int held = memfd_create("secret", MFD_CLOEXEC);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (secret == NULL || held < 0 || memory == MAP_FAILED || pipe(asked) != 0 || pipe(answered) != 0) return fail("start");
    strncpy(memory, secret, 200);
    if (write(held, memory, strlen(memory)) < 0 || lseek(held, 0, SEEK_SET) != 0) return fail("memory file");
    pid_t victim = getpid(), other = 0;
    if (is(how, "child") || is(how, "orphan")) {
        if (make_opaque() != 0) return 4;
        if ((other = fork()) == 0) {
            if (is(how, "orphan") && fork() != 0) _exit(0);
            serve();
        }
        if (is(how, "orphan")) waitpid(other, NULL, 0);
        if (read(answered[0], &victim, sizeof victim) != sizeof victim) return fail("victim");
    } else if (is(how, "itself")) {
        if (make_opaque() != 0) return 4;
    } else if (is(how, "beside")) { /* a program of its own: a copy of our memory would count as ours */
        char *again[] = {argv[0], "itself", argv[0], "pause", NULL};
        if ((other = fork()) == 0) _exit((execv("/proc/self/exe", again), 1));
        char path[64], line[64] = "";
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", other, other); /* it has become opaque when it has a child */
        for (FILE *file; *line == 0 && (file = fopen(path, "r")) != NULL; fclose(file))
            if (fgets(line, sizeof line, file) == NULL) usleep(1000);
    }
    char **command = argv + 2;
    for (char **word = command; *word != NULL; word++)
        replace(word, "PID", (uintmax_t)victim), replace(word, "ADDRESS", (uintmax_t)(uintptr_t)memory), replace(word, "FD", (uintmax_t)held);
    unsetenv("HIDDEN");
    pid_t attacker = fork();
    if (attacker == 0) {
        execvp(command[0], command);
        _exit(fail(command[0]));
    }
    int status = 0;
    if (waitpid(attacker, &status, 0) != attacker) return fail("wait");
    char now = *memory;
    if (victim != getpid() && (write(asked[1], "x", 1) != 1 || read(answered[0], &now, 1) != 1)) return fail("ask");
    printf("victim: memory %d\n", now);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
