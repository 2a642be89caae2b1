/* Racers: each moves what a call names between GOOD and BAD, again and again, until it is told to stop.
 *
 * Memory is written by a thread, by a CLONE_VM child, by another process through MAP_SHARED,
 * process_vm_writev or /proc/PID/mem, or replaced page by page. Names move by a symbolic link, by directories
 * exchanged or renamed, by a descriptor's number that gets another file, by the working directory.
 */
#ifndef CALLGATE_RACERS_H
#define CALLGATE_RACERS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "race.h"

struct shared {
    char path[4096]; /* what the raced call is given */
    struct open_how how;
    atomic_int stop;
    atomic_int racer_ready;
};

static struct shared *area;
static const char *good, *bad, *scratch, *racer;
static char good_path[4096], bad_path[4096], leaf[64] = "victim";
static int raced_fd = AT_FDCWD;

static pid_t helper;

/* ---- racers: each moves the name between GOOD and BAD until told to stop ---- */

static void flip_memory(void) {
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) {
        const char *from = turn ? bad_path : good_path;
        memcpy(area->path, from, strlen(from) + 1);
        for (volatile int i = 0; i < (rand() & 255); i++) {
        }
    }
}

static int flip_child(void *unused) {
    (void)unused;
    flip_memory();
    return 0;
}

static void *flip_thread(void *unused) {
    (void)unused;
    flip_memory();
    return NULL;
}

static void flip_by_vm_writev(pid_t target) {
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) {
        const char *from = turn ? bad_path : good_path;
        struct iovec local = {(void *)(uintptr_t)from, strlen(from) + 1}, remote = {area->path, local.iov_len};
        if (process_vm_writev(target, &local, 1, &remote, 1, 0) < 0) return;
    }
}

static void flip_by_proc_mem(pid_t target) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", target);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd < 0) fail(name);
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) {
        const char *from = turn ? bad_path : good_path;
        if (pwrite(fd, from, strlen(from) + 1, (off_t)(uintptr_t)area->path) < 0) return;
    }
}

static void *mem_thread(void *unused) {
    (void)unused;
    flip_by_proc_mem(getpid());
    return NULL;
}

/* open_how's flags: reading (allowed) and truncating (not allowed) of the same file */
static void *how_thread(void *unused) {
    (void)unused;
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) {
        area->how.flags = turn ? (O_RDWR | O_TRUNC) : O_RDONLY;
        for (volatile int i = 0; i < (rand() & 255); i++) {
        }
    }
    return NULL;
}

static char link_name[4096], alt_name[4096];

/* the page that holds the path is another one from moment to moment, or none */
static int side_fd[2];
static void *remap_thread(void *unused) {
    (void)unused;
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) {
        mmap(area->path, sizeof area->path, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, side_fd[turn], 0);
        for (volatile int i = 0; i < (rand() & 255); i++) {
        }
        if ((rand() & 7) == 0) mprotect(area->path, sizeof area->path, PROT_NONE);
    }
    return NULL;
}
static void start_remap(void) {
    const char *sides[2] = {good_path, bad_path};
    for (int i = 0; i < 2; i++) {
        side_fd[i] = memfd_create("path", MFD_CLOEXEC);
        if (side_fd[i] < 0 || ftruncate(side_fd[i], sizeof area->path) != 0) fail("memfd");
        if (pwrite(side_fd[i], sides[i], strlen(sides[i]) + 1, 0) < 0) fail("memfd");
    }
    start_thread(remap_thread);
}

static void *symlink_thread(void *unused) {
    (void)unused;
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s/next", scratch);
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) {
        char target[4200];
        snprintf(target, sizeof target, "%s%s", turn ? bad : good, strcmp(racer, "leaf") == 0 ? "/victim" : "");
        unlink(temporary);
        if (symlink(target, temporary) == 0) rename(temporary, link_name);
    }
    return NULL;
}

/* nothing, then a link to BAD's file */
static void *vanish_thread(void *unused) {
    (void)unused;
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s/next", scratch);
    while (!atomic_load(&area->stop)) {
        unlink(link_name);
        if (symlink(bad_path, temporary) == 0) rename(temporary, link_name);
    }
    return NULL;
}

static void *exchange_thread(void *unused) {
    (void)unused;
    while (!atomic_load(&area->stop))
        syscall(SYS_renameat2, AT_FDCWD, link_name, AT_FDCWD, alt_name, 2 /* RENAME_EXCHANGE */);
    return NULL;
}

/* a directory of the same name comes and goes beneath the caller: rename away, rename a link in */
static void *replace_thread(void *unused) {
    (void)unused;
    char away[4200];
    snprintf(away, sizeof away, "%s/away", scratch);
    while (!atomic_load(&area->stop)) {
        rename(link_name, away);
        rename(alt_name, link_name);
        rename(link_name, alt_name);
        rename(away, link_name);
    }
    return NULL;
}

/* the descriptors of two directories, or of two files that may both be read */
static int side_of[2];
static void *dup_thread(void *unused) {
    (void)unused;
    int first = side_of[0], second = side_of[1];
    if (first < 0 || second < 0) fail("descriptors");
    while (!atomic_load(&area->stop)) {
        dup2(first, raced_fd);
        for (volatile int i = 0; i < (rand() & 1023); i++) {
        }
        dup2(second, raced_fd);
        for (volatile int i = 0; i < (rand() & 1023); i++) {
        }
    }
    return NULL;
}

/* closes it in between: the number is free, then names another file */
static void *close_thread(void *unused) {
    (void)unused;
    while (!atomic_load(&area->stop)) {
        for (int turn = 0; turn < 2; turn++) {
            close(raced_fd);
            dup3(side_of[turn], raced_fd, O_CLOEXEC);
            for (volatile int i = 0; i < (rand() & 1023); i++) {
            }
        }
    }
    return NULL;
}

static void *cwd_thread(void *unused) {
    (void)unused;
    while (!atomic_load(&area->stop)) {
        if (chdir(good) != 0) fail("chdir");
        for (volatile int i = 0; i < (rand() & 1023); i++) {
        }
        if (chdir(bad) != 0) fail("chdir");
        for (volatile int i = 0; i < (rand() & 1023); i++) {
        }
    }
    return NULL;
}

/* ---- how each racer begins ---- */

static void start_clonevm(void) {
    char *stack = malloc(65536);
    helper = clone(flip_child, stack + 65536, CLONE_VM | SIGCHLD, NULL);
    if (helper < 0) fail("clone");
}
static void other_process(void (*flip)(pid_t)) {
    pid_t target = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    helper = fork();
    if (helper != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    flip(target);
    _exit(0);
}
static void flip_shared(pid_t target) {
    (void)target;
    flip_memory();
}
static void start_thread_flip(void) { start_thread(flip_thread); }
static void start_procmem(void) { start_thread(mem_thread); }
static void start_how(void) {
    strcpy(area->path, bad_path);
    start_thread(how_thread);
}
static void start_shared(void) { other_process(flip_shared); }
static void start_vmwritev(void) { other_process(flip_by_vm_writev); }
static void start_othermem(void) { other_process(flip_by_proc_mem); }

static void link_to(const char *target) {
    if (symlink(target, link_name) != 0) fail("symlink");
    start_thread(symlink_thread);
}
static void start_leaf(void) {
    strcpy(area->path, link_name);
    link_to(good_path);
}
static void start_vanish(void) {
    strcpy(area->path, link_name);
    start_thread(vanish_thread);
}
/* two files of one's own */
static void start_files_exchanged(void) {
    const char *both[2] = {link_name, alt_name};
    for (int i = 0; i < 2; i++) {
        int fd = open(both[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0) fail(both[i]);
        close(fd);
    }
    strcpy(area->path, link_name);
    start_thread(exchange_thread);
}
static void start_symlink(void) {
    snprintf(area->path, sizeof area->path, "%.4000s/%s", link_name, leaf);
    link_to(good);
}
/* `cur` is a directory with a victim of its own, `alt` a link to BAD */
static void two_directories(void *(*what)(void *)) {
    char inner[4200];
    if (mkdir(link_name, 0755) != 0 || symlink(bad, alt_name) != 0) fail("scratch");
    snprintf(inner, sizeof inner, "%s/victim", link_name);
    int fd = open(inner, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "allowed", 7) != 7) fail(inner);
    close(fd);
    snprintf(area->path, sizeof area->path, "%.4000s/%s", link_name, leaf);
    start_thread(what);
}
static void start_exchange(void) { two_directories(exchange_thread); }
static void start_replace(void) { two_directories(replace_thread); }

static void directories(void *(*what)(void *)) {
    side_of[0] = open(good, O_PATH | O_DIRECTORY | O_CLOEXEC), side_of[1] = open(bad, O_PATH | O_DIRECTORY | O_CLOEXEC);
    raced_fd = fcntl(side_of[0], F_DUPFD_CLOEXEC, 400);  /* a number that nobody else gets while it is closed */
    strcpy(area->path, leaf);
    start_thread(what);
}
static void start_dup2(void) { directories(dup_thread); }
static void start_close(void) { directories(close_thread); }
static void start_files(void) { /* for the calls that name an open file */
    side_of[0] = open(good_path, O_RDONLY | O_CLOEXEC), side_of[1] = open(bad_path, O_RDONLY | O_CLOEXEC);
    raced_fd = fcntl(side_of[0], F_DUPFD_CLOEXEC, 400);  /* a number that nobody else gets while it is closed */
    start_thread(dup_thread);
}
static void start_cwd(void) {
    strcpy(area->path, leaf);
    start_thread(cwd_thread);
}

static const struct {
    const char *name;
    void (*start)(void);
} racers[] = {{"thread", start_thread_flip}, {"remap", start_remap},
              {"procmem", start_procmem},    {"how", start_how},
              {"clonevm", start_clonevm},    {"shared", start_shared},
              {"vmwritev", start_vmwritev},  {"othermem", start_othermem},
              {"vanish", start_vanish},      {"own", start_files_exchanged},
              {"leaf", start_leaf},          {"symlink", start_symlink},
              {"exchange", start_exchange},  {"replace", start_replace},
              {"dup2", start_dup2},          {"close", start_close},
              {"files", start_files},        {"cwd", start_cwd}};

static void start_racer(void) {
    snprintf(link_name, sizeof link_name, "%s/cur", scratch);
    snprintf(alt_name, sizeof alt_name, "%s/alt", scratch);
    strcpy(area->path, good_path);
    for (size_t i = 0; i < sizeof racers / sizeof *racers; i++)
        if (strcmp(racers[i].name, racer) == 0) return racers[i].start();
    fail("no such racer");
}

#endif
