/* Races: one thread makes a call again and again while another changes what the call names.
 *
 *   attack_race OP RACER GOOD BAD SCRATCH MILLISECONDS ROUNDS
 *
 * GOOD and BAD are directories whose paths differ in bytes but not in length; each holds `victim` (GOOD's is allowed,
 * BAD's is denied) and, for calls that make names, may get `made`. RACER says how the name moves between the two:
 * memory written by a thread, a CLONE_VM child, another process through MAP_SHARED, process_vm_writev or /proc/PID/mem;
 * a symbolic link, a directory exchanged, a descriptor replaced by dup2, the working directory.
 * Prints `WON n TWIN m`: how often BAD was reached, how often GOOD was. What BAD held, if read, goes to stdout.
 * The test looks at BAD from outside: what is printed here is information only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

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
static int trash;

static void fail(const char *what) {
    printf("cannot: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(3);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- racers: each moves the name between GOOD and BAD until told to stop ---- */

static void flip_memory(void) {
    for (int turn = 0; !atomic_load(&area->stop); turn ^= 1) {
        const char *from = turn ? bad_path : good_path;
        memcpy(area->path, from, strlen(from) + 1);
        for (volatile int i = 0; i < (rand() & 255); i++) {}
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
        for (volatile int i = 0; i < (rand() & 255); i++) {}
    }
    return NULL;
}

static char link_name[4096], alt_name[4096];

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

static void *exchange_thread(void *unused) {
    (void)unused;
    while (!atomic_load(&area->stop)) syscall(SYS_renameat2, AT_FDCWD, link_name, AT_FDCWD, alt_name, 2 /* RENAME_EXCHANGE */);
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

static void *dup_thread(void *unused) {
    (void)unused;
    int first = open(good, O_PATH | O_DIRECTORY | O_CLOEXEC), second = open(bad, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (first < 0 || second < 0) fail("directories");
    while (!atomic_load(&area->stop)) {
        dup2(first, raced_fd);
        for (volatile int i = 0; i < (rand() & 1023); i++) {}
        dup2(second, raced_fd);
        for (volatile int i = 0; i < (rand() & 1023); i++) {}
    }
    return NULL;
}

static void *cwd_thread(void *unused) {
    (void)unused;
    while (!atomic_load(&area->stop)) {
        if (chdir(good) != 0) fail("chdir");
        for (volatile int i = 0; i < (rand() & 1023); i++) {}
        if (chdir(bad) != 0) fail("chdir");
        for (volatile int i = 0; i < (rand() & 1023); i++) {}
    }
    return NULL;
}

static pid_t helper;

static void start_thread(void *(*what)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, NULL) != 0) fail("thread");
}

static void start_racer(void) {
    snprintf(link_name, sizeof link_name, "%s/cur", scratch);
    snprintf(alt_name, sizeof alt_name, "%s/alt", scratch);
    strcpy(area->path, good_path);
    if (strcmp(racer, "thread") == 0) {
        start_thread(flip_thread);
    } else if (strcmp(racer, "how") == 0) {
        strcpy(area->path, bad_path);
        start_thread(how_thread);
    } else if (strcmp(racer, "procmem") == 0) {
        start_thread(mem_thread);
    } else if (strcmp(racer, "clonevm") == 0) {
        char *stack = malloc(65536);
        helper = clone(flip_child, stack + 65536, CLONE_VM | SIGCHLD, NULL);
        if (helper < 0) fail("clone");
    } else if (strcmp(racer, "shared") == 0 || strcmp(racer, "vmwritev") == 0 || strcmp(racer, "othermem") == 0) {
        pid_t target = getpid();
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        helper = fork();
        if (helper == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (strcmp(racer, "shared") == 0) flip_memory();
            if (strcmp(racer, "vmwritev") == 0) flip_by_vm_writev(target);
            if (strcmp(racer, "othermem") == 0) flip_by_proc_mem(target);
            _exit(0);
        }
    } else if (strcmp(racer, "symlink") == 0 || strcmp(racer, "leaf") == 0) {
        if (strcmp(racer, "leaf") == 0)
            strcpy(area->path, link_name);
        else
            snprintf(area->path, sizeof area->path, "%.4000s/%s", link_name, leaf);
        char first[4200];
        snprintf(first, sizeof first, "%s%s", good, strcmp(racer, "leaf") == 0 ? "/victim" : "");
        if (symlink(first, link_name) != 0) fail("symlink");
        start_thread(symlink_thread);
    } else if (strcmp(racer, "exchange") == 0 || strcmp(racer, "replace") == 0) {
        /* `cur` is a directory with a victim of its own, `alt` a link to BAD */
        char inner[4200];
        if (mkdir(link_name, 0755) != 0 || symlink(bad, alt_name) != 0) fail("scratch");
        snprintf(inner, sizeof inner, "%s/victim", link_name);
        int fd = open(inner, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, "allowed", 7) != 7) fail(inner);
        close(fd);
        snprintf(area->path, sizeof area->path, "%.4000s/%s", link_name, leaf);
        start_thread(strcmp(racer, "exchange") == 0 ? exchange_thread : replace_thread);
    } else if (strcmp(racer, "dup2") == 0) {
        raced_fd = open(good, O_PATH | O_DIRECTORY | O_CLOEXEC);
        strcpy(area->path, leaf);
        start_thread(dup_thread);
    } else if (strcmp(racer, "cwd") == 0) {
        strcpy(area->path, leaf);
        start_thread(cwd_thread);
    } else {
        fail("no such racer");
    }
}

/* ---- calls ---- */

static int printed;

/* 1: this descriptor is BAD's victim, 0: GOOD's */
static int is_secret(int fd) {
    char content[256];
    ssize_t got = pread(fd, content, sizeof content - 1, 0);
    if (got <= 0) return 0;
    content[got] = 0;
    if (strncmp(content, "allowed", 7) == 0) return 0;
    if (!printed++) printf("read: %s\n", content);
    return 1;
}

static int read_result(long fd) {
    if (fd < 0) return -1;
    int secret = is_secret((int)fd);
    close((int)fd);
    return secret;
}

static long raced(const char *op) {
    const char *p = area->path;
    int d = raced_fd;
    if (strcmp(op, "open") == 0) return syscall(SYS_open, p, O_RDONLY);
    if (strcmp(op, "openat") == 0) return syscall(SYS_openat, d, p, O_RDONLY);
    if (strcmp(op, "openat2") == 0 || strcmp(op, "openhow") == 0) return syscall(SYS_openat2, d, p, &area->how, sizeof area->how);
    if (strcmp(op, "append") == 0) return syscall(SYS_openat, d, p, O_WRONLY | O_APPEND);
    if (strcmp(op, "trunc") == 0) return syscall(SYS_openat, d, p, O_WRONLY | O_TRUNC);
    if (strcmp(op, "creat") == 0) return d == AT_FDCWD ? syscall(SYS_creat, p, 0600) : syscall(SYS_openat, d, p, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (strcmp(op, "truncate") == 0) return syscall(SYS_truncate, p, 1);
    if (strcmp(op, "unlink") == 0) return syscall(SYS_unlinkat, d, p, 0);
    if (strcmp(op, "chmod") == 0) return syscall(SYS_fchmodat, d, p, 0640);
    if (strcmp(op, "chown") == 0) return syscall(SYS_fchownat, d, p, getuid(), getgid(), 0);
    if (strcmp(op, "utimens") == 0) return syscall(SYS_utimensat, d, p, NULL, 0);
    if (strcmp(op, "setxattr") == 0) { /* the same value again would change nothing */
        trash++;
        return syscall(SYS_setxattr, p, "user.raced", &trash, sizeof trash, 0);
    }
    if (strcmp(op, "setxattrat") == 0) {
        struct {
            unsigned long value;
            unsigned size, flags;
        } arguments = {(unsigned long)&trash, sizeof trash, 0};
        trash++;
        return syscall(463 /* setxattrat */, d, p, 0, "user.raced", &arguments, sizeof arguments);
    }
    if (strcmp(op, "mkdir") == 0) return syscall(SYS_mkdirat, d, p, 0755);
    if (strcmp(op, "symlink") == 0) return syscall(SYS_symlinkat, "anywhere", d, p);
    if (strcmp(op, "link") == 0) {
        char source[4200];
        snprintf(source, sizeof source, "%s/source", scratch);
        return syscall(SYS_linkat, AT_FDCWD, source, d, p, 0);
    }
    if (strcmp(op, "linkfrom") == 0) {
        char target[4200];
        snprintf(target, sizeof target, "%s/linked", scratch);
        unlink(target);
        return syscall(SYS_linkat, d, p, AT_FDCWD, target, 0);
    }
    if (strcmp(op, "rename") == 0) { /* onto the raced name */
        char source[4200];
        snprintf(source, sizeof source, "%s/onto%d", scratch, trash++ & 15);
        int fd = open(source, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd >= 0 && write(fd, "allowed", 7) != 7) fail("source");
        if (fd >= 0) close(fd);
        return syscall(SYS_renameat2, AT_FDCWD, source, d, p, 0);
    }
    if (strcmp(op, "renamefrom") == 0) {
        char target[4200];
        snprintf(target, sizeof target, "%s/taken", scratch);
        return syscall(SYS_renameat2, d, p, AT_FDCWD, target, 0);
    }
    if (strcmp(op, "exec") == 0) {
        int status;
        /* with the racer's descriptors and working directory, where it is those that move */
        const unsigned long shared = d != AT_FDCWD || !strcmp(racer, "cwd") ? CLONE_FILES | CLONE_FS : 0;
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD | shared, NULL, NULL, NULL, 0);
        if (child == 0) {
            char *arguments[] = {(char *)(uintptr_t)bad_path, (char *)(uintptr_t)scratch, NULL}, *none[] = {NULL};
            syscall(SYS_execveat, d, p, arguments, none, 0);
            _exit(101);
        }
        waitpid(child, &status, 0);
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : WIFEXITED(status) && WEXITSTATUS(status) == 42 ? 1 : -1;
    }
    fail("no such call");
    return -1;
}

struct state {
    ino_t inode;
    struct timespec changed;
    int exists;
};

static struct state look(const char *path) {
    struct stat st;
    struct state seen = {0, {0, 0}, lstat(path, &st) == 0};
    if (seen.exists) seen.inode = st.st_ino, seen.changed = st.st_ctim;
    return seen;
}

static int differs(struct state a, struct state b) {
    return a.exists != b.exists || a.inode != b.inode || a.changed.tv_sec != b.changed.tv_sec || a.changed.tv_nsec != b.changed.tv_nsec;
}

static void put_back(const char *directory, const char *content, int making) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", directory, leaf);
    if (making) {
        if (unlink(path) != 0 && errno == EISDIR) rmdir(path);
        return;
    }
    if (access(path, F_OK) == 0) return;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) {
        if (write(fd, content, strlen(content)) < 0) fail(path);
        close(fd);
    }
}

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    const char *op = argv[1];
    racer = argv[2], good = argv[3], bad = argv[4], scratch = argv[5];
    double end = now() + atof(argv[6]) / 1000;
    long rounds = atol(argv[7]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    int making = !strcmp(op, "mkdir") || !strcmp(op, "symlink") || !strcmp(op, "link");
    int reading = !strcmp(op, "open") || !strcmp(op, "openat") || !strcmp(op, "openat2");
    int opening = reading || !strcmp(op, "openhow") || !strcmp(op, "append") || !strcmp(op, "trunc") || !strcmp(op, "creat");
    if (making) strcpy(leaf, "made");
    snprintf(good_path, sizeof good_path, "%s/%s", good, leaf);
    snprintf(bad_path, sizeof bad_path, "%s/%s", bad, leaf);
    area = mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) fail("mmap");
    if (!strcmp(op, "link")) {
        char source[4200];
        snprintf(source, sizeof source, "%s/source", scratch);
        close(open(source, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    }
    start_racer();
    /* `cur` of exchange and replace is the allowed side there */
    const char *allowed = !strcmp(racer, "exchange") || !strcmp(racer, "replace") ? NULL : good_path;
    struct state before = look(bad_path), good_before = allowed ? look(allowed) : before;
    long won = 0, twin = 0, tried = 0;
    for (; (tried < rounds || won < 5 || twin == 0) && now() < end; tried++) {
        long result = raced(op);
        if (!strcmp(op, "exec")) {
            won += result == 1;
            twin += result == 0;
            continue;
        }
        if (reading) {
            int secret = read_result(result);
            won += secret == 1;
            twin += secret == 0;
            continue;
        }
        if (!strcmp(op, "linkfrom") && result == 0) {
            char target[4200];
            snprintf(target, sizeof target, "%s/linked", scratch);
            int secret = read_result(open(target, O_RDONLY | O_CLOEXEC));
            won += secret == 1;
            twin += secret == 0;
            continue;
        }
        if (opening && result >= 0) {
            if (!strcmp(op, "append") && write((int)result, "+", 1) < 0) fail("append");
            close((int)result);
        }
        struct state after = look(bad_path);
        if (result >= 0) {
            int hit = differs(before, after);
            won += hit;
            twin += !hit || (allowed && differs(good_before, look(allowed)));
        }
        put_back(bad, "secret put back", making);
        put_back(good, "allowed", making);
        if (making && !allowed) put_back(link_name, "allowed", making);
        before = look(bad_path);
        if (allowed) good_before = look(allowed);
    }
    atomic_store(&area->stop, 1);
    if (helper > 0) {
        kill(helper, SIGKILL);
        waitpid(helper, NULL, 0);
    }
    printf("%s WON %ld TWIN %ld TRIED %ld\n", won ? "WON" : "HELD", won, twin, tried);
    fflush(stdout);
    _exit(0);
}
