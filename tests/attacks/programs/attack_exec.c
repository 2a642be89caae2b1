/* Races for an execve that is judged and then continued: what is judged is allowed, what then runs shall not be.
 *
 *   attack_exec KIND GOOD BAD SCRATCH MILLISECONDS ROUNDS
 *
 * GOOD and BAD are directories whose paths differ in bytes but not in length. GOOD/victim ends with 0, BAD/victim with
 * 42; GOOD/word ends with 42 where its first argument is `push`, else with 7; GOOD/script and BAD/script have the same
 * interpreter. Kinds:
 *   argument list     a thread flips the bytes of an argument, or the pointer to it, between `pull` and `push`
 *   second            an argument behind a hundred others, in another page
 *   thread            a thread that is not the first one executes, the first one flips the path
 *   vfork spawn       a child of that kind executes while a thread of its parent flips the path
 *   script            a thread flips the path between two scripts
 *   line              another process rewrites the first line of the script that is executed
 *   relink            another process makes the name a link to one program, then to the other
 * Prints `WON n TWIN m`: how often a program ended with 42, how often in the allowed way.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "race.h"

struct shared {
    char path[4096];
    char word[8];
    char *volatile list[128];
    char padding[3 * 4096];
    char far[8];
    atomic_int stop;
};

static struct shared *area;
static const char *kind, *scratch;
static char good_path[4200], bad_path[4200], name[4200];
static char *nothing[] = {NULL};
static char pull[] = "pull", push[] = "push";

static int is(const char *what) { return strcmp(kind, what) == 0; }

static void a_while(void) {
    for (volatile int i = 0; i < (rand() & 255); i++) {}
}

static void rewrite(const char *path, const char *text, mode_t mode) {
    char next[4300];
    snprintf(next, sizeof next, "%s.next", path);
    int fd = open(next, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(next);
    close(fd);
    if (rename(next, path) != 0) fail(path);
}

static void flip(int turn) {
    char text[4300];
    if (is("argument")) memcpy(area->word, turn ? push : pull, 5);
    else if (is("second")) memcpy(area->far, turn ? push : pull, 5);
    else if (is("list")) area->list[1] = turn ? push : pull;
    else if (is("line")) {
        snprintf(text, sizeof text, "#!%s\n", turn ? bad_path : good_path);
        rewrite(name, text, 0755);
    } else if (is("relink")) {
        snprintf(text, sizeof text, "%s.next", name);
        unlink(text);
        if (symlink(turn ? bad_path : good_path, text) == 0) rename(text, name);
    } else {
        const char *from = turn ? bad_path : good_path;
        memcpy(area->path, from, strlen(from) + 1);
    }
    a_while();
}

static void *flip_on(void *unused) {
    (void)unused;
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) flip(turn);
    return NULL;
}

static void quiet(void) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, 1);
}

static void *execute(void *unused) {
    (void)unused;
    execve(area->path, (char **)area->list, nothing);
    _exit(101);
}

static pid_t start(void) {
    pid_t pid = 0;
    if (is("spawn")) {
        errno = posix_spawn(&pid, area->path, NULL, NULL, (char **)area->list, nothing);
        return errno == 0 ? pid : -1;
    }
    pid = is("vfork") ? vfork() : fork();
    if (pid != 0) return pid;
    if (is("vfork")) {
        execve(area->path, (char **)area->list, nothing);
        _exit(101);
    }
    quiet();
    if (!is("thread")) execute(NULL);
    pthread_t thread;
    atomic_store(&area->stop, 0);
    if (pthread_create(&thread, NULL, execute, NULL) != 0) _exit(102);
    flip_on(NULL);
    _exit(103);
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    kind = argv[1], scratch = argv[4];
    const int words = is("argument") || is("list") || is("second"), scripts = is("script");
    const char *leaf = words ? "word" : scripts ? "script" : "victim";
    snprintf(good_path, sizeof good_path, "%s/%s", argv[2], leaf);
    snprintf(bad_path, sizeof bad_path, "%s/%s", argv[3], leaf);
    snprintf(name, sizeof name, "%s/raced", scratch);
    const double end = now() + atof(argv[5]) / 1000;
    const long rounds = atol(argv[6]);
    area = mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) fail("mmap");
    strcpy(area->path, is("line") || is("relink") ? name : good_path);
    strcpy(area->word, pull), strcpy(area->far, pull);
    int count = 0;
    area->list[count++] = (char *)(uintptr_t)scratch;
    if (is("second"))
        while (count < 100) area->list[count++] = pull;
    if (words) area->list[count++] = is("second") ? area->far : area->word;
    area->list[count++] = (char *)(uintptr_t)scratch;
    if (is("line") || is("relink")) flip(0);
    pid_t helper = 0;
    if (is("line") || is("relink")) {
        helper = fork();
        if (helper == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            flip_on(NULL);
        }
    } else if (!is("thread")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, flip_on, NULL) != 0) fail("thread");
    }
    long won = 0, twin = 0, tried = 0;
    for (; (tried < rounds || won < 5 || twin == 0) && now() < end; tried++) {
        int status = 0;
        pid_t pid = start();
        if (pid <= 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) continue;
        won += WEXITSTATUS(status) == 42;
        twin += WEXITSTATUS(status) == (words ? 7 : 0);
    }
    atomic_store(&area->stop, 1);
    if (helper > 0) kill(helper, SIGKILL), waitpid(helper, NULL, 0);
    printf("%s WON %ld TWIN %ld TRIED %ld\n", won ? "WON" : "HELD", won, twin, tried);
    fflush(stdout);
    _exit(0);
}
