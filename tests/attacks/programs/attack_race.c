/* Races: one thread makes a call again and again while another changes what the call names (racers.h).
 *
 *   attack_race OP RACER GOOD BAD SCRATCH MILLISECONDS ROUNDS WINS
 *
 * GOOD and BAD are directories whose paths differ in bytes but not in length; each holds `victim` (GOOD's is
 * allowed, BAD's is denied) and, for calls that make names, may get `made`. It ends after ROUNDS tries, but
 * not before WINS of them reached BAD and one reached GOOD, and in any case when the time is over. Prints
 * `WON n TWIN m TRIED t`: how often BAD was reached, how often GOOD was. What BAD held, if read, goes to
 * stdout. The test looks at BAD from outside: what is printed here is information only.
 */
#define _GNU_SOURCE
#include "../../programs/old_calls.h"
#include "racers.h"

#include <linux/fs.h>
#include <sys/wait.h>
#include <sys/xattr.h>

/* What a result of 0 or more, or a descriptor, says of the call. */
enum kind {
    READS,   /* a descriptor: GOOD's content or BAD's */
    OPENS,   /* a descriptor, and a change */
    CHANGES, /* a change of `victim` */
    MAKES,   /* `made` appears */
    COPIES,  /* SCRATCH/linked is the object */
    RUNS,    /* a program: 0 GOOD's ran, 1 BAD's */
};

static const char *scratch_name(const char *leaf_name) {
    static char path[2][4200];
    static int turn;
    char *one = path[turn ^= 1];
    snprintf(one, sizeof path[0], "%s/%s", scratch, leaf_name);
    return one;
}

static long won, twin, tried;
/* So that every hit shows, however coarse the file system's clock is: each try changes to something else. */
static int next_size(void) { return 1 + (int)(tried % 7); }
static mode_t next_mode(void) { return 0600 | (mode_t)(tried & 077); }

#define CALL(name) static long call_##name(const char *p, int d)
#define UNUSED_FD (void)d
#define UNUSED_PATH (void)p

CALL(open) {
    UNUSED_FD;
    return syscall(SYS_open, p, O_RDONLY);
}
CALL(openat) { return syscall(SYS_openat, d, p, O_RDONLY); }
CALL(nofollow) { return syscall(SYS_openat, d, p, O_RDONLY | O_NOFOLLOW); }
CALL(openat2) { return syscall(SYS_openat2, d, p, &area->how, sizeof area->how); }
/* Writes where it can: openat2's raced flags may have made it readable only. */
static long written(long fd) {
    if (fd >= 0 && write((int)fd, "+++++++", (size_t)next_size()) < 0 && errno != EBADF) fail("write");
    return fd;
}
CALL(openhow) { return written(call_openat2(p, d)); }
CALL(append) { return written(syscall(SYS_openat, d, p, O_WRONLY | O_APPEND)); }
CALL(trunc) { return written(syscall(SYS_openat, d, p, O_WRONLY | O_TRUNC)); }
CALL(trunc_nofollow) { return written(syscall(SYS_openat, d, p, O_WRONLY | O_TRUNC | O_NOFOLLOW)); }
CALL(read_trunc) { return syscall(SYS_openat, d, p, O_RDONLY | O_TRUNC); } /* no Landlock before ABI 3 holds it */
CALL(creat) {
    if (d == AT_FDCWD) return written(syscall(SYS_creat, p, 0600));
    return written(syscall(SYS_openat, d, p, O_WRONLY | O_CREAT | O_TRUNC, 0600));
}
CALL(truncate) {
    UNUSED_FD;
    return syscall(SYS_truncate, p, next_size());
}
CALL(unlink) { return syscall(SYS_unlinkat, d, p, 0); }
CALL(chmod) { return syscall(SYS_fchmodat, d, p, next_mode()); }
CALL(fchmodat2) { return syscall(452, d, p, next_mode(), AT_SYMLINK_NOFOLLOW); }
CALL(chown) { return syscall(SYS_fchownat, d, p, getuid(), getgid(), 0); }
static const struct timespec *next_times(void) {
    static struct timespec times[2];
    times[0].tv_sec = times[1].tv_sec = 1000 + tried;
    return times;
}
CALL(utimens) { return syscall(SYS_utimensat, d, p, next_times(), 0); }
CALL(setxattr) {
    UNUSED_FD;
    return setxattr(p, "user.raced", &tried, sizeof tried, 0);
}
CALL(setxattrat) { /* Linux 6.13 */
    struct {
        uint64_t value;
        uint32_t size, flags;
    } arguments = {(uintptr_t)&tried, sizeof tried, 0};
    return syscall(463, d, p, 0, "user.raced", &arguments, sizeof arguments);
}
CALL(mkdir) { return syscall(SYS_mkdirat, d, p, 0755); }
CALL(mknod) { return syscall(SYS_mknodat, d, p, S_IFREG | 0644, 0); }
CALL(symlink) { return syscall(SYS_symlinkat, "anywhere", d, p); }
CALL(create) {
    long fd = syscall(SYS_openat, d, p, O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (fd >= 0) close((int)fd);
    return fd;
}
CALL(link) { return syscall(SYS_linkat, AT_FDCWD, scratch_name("source"), d, p, 0); }
CALL(linkfrom) {
    const char *target = scratch_name("linked");
    unlink(target);
    return syscall(SYS_linkat, d, p, AT_FDCWD, target, AT_SYMLINK_FOLLOW);
}
static const char *fresh_source(void) {
    static int turn;
    char number[16];
    snprintf(number, sizeof number, "onto%d", turn++ & 15);
    const char *source = scratch_name(number);
    int fd = open(source, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0 && write(fd, "allowed", 7) != 7) fail("source");
    if (fd >= 0) close(fd);
    return source;
}
CALL(rename) { return syscall(SYS_renameat2, AT_FDCWD, fresh_source(), d, p, 0); } /* onto the raced name */
CALL(renamefrom) { return syscall(SYS_renameat2, d, p, AT_FDCWD, scratch_name("taken"), 0); }
CALL(swap) { return syscall(SYS_renameat2, AT_FDCWD, fresh_source(), d, p, RENAME_EXCHANGE); }
/* of an open file, by its number */
CALL(fchmod) {
    UNUSED_PATH;
    return fchmod(d, next_mode());
}
CALL(fchown) {
    UNUSED_PATH;
    return fchown(d, getuid(), getgid());
}
CALL(futimens) {
    UNUSED_PATH;
    return futimens(d, next_times());
}
CALL(fsetxattr) {
    UNUSED_PATH;
    return fsetxattr(d, "user.raced", &tried, sizeof tried, 0);
}

/* Says which object was opened, after a call that stands in the log before it: 1 where it is another one than stood there before.
 * It is denied, of another name in each turn, because equal denials are counted. */
CALL(identity) {
    static unsigned turn;
    char marker[PATH_MAX];
    struct stat before, opened;
    snprintf(marker, sizeof marker, "%s.%u", bad_path, turn++);
    close((int)syscall(SYS_openat, AT_FDCWD, marker, O_CREAT | O_WRONLY, 0600));
    if (fstatat(d, p, &before, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    int fd = (int)syscall(SYS_openat, d, p, O_RDONLY | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &opened) != 0) return printf("opened nothing\n"), -1;
    close(fd);
    printf("opened %lu\n", (unsigned long)opened.st_ino);
    return before.st_ino != opened.st_ino;
}

/* A program exits with 0 (GOOD's) or 42 (BAD's). */
static long ran(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status)) return -1;
    return WEXITSTATUS(status) == 0 ? 0 : WEXITSTATUS(status) == 42 ? 1 : -1;
}
static void execute(const char *p) {
    char *arguments[] = {(char *)(uintptr_t)bad_path, (char *)(uintptr_t)scratch, NULL}, *none[] = {NULL};
    execve(p, arguments, none);
    _exit(101);
}
/* A child with the racer's descriptors and working directory, where it is those that move. */
static pid_t fork_as_raced(void) {
    unsigned long shared = raced_fd != AT_FDCWD || !strcmp(racer, "cwd") ? CLONE_FILES | CLONE_FS : 0;
    return (pid_t)syscall(SYS_clone, SIGCHLD | shared, NULL, NULL, NULL, 0);
}
CALL(exec) {
    UNUSED_FD;
    pid_t child = fork_as_raced();
    if (child == 0) execute(p);
    return ran(child);
}
CALL(exec_vfork) { /* the child runs in the parent's memory, which other threads write */
    UNUSED_FD;
    pid_t child = vfork();
    if (child == 0) execute(p);
    return ran(child);
}
CALL(execveat) {
    pid_t child = fork_as_raced();
    if (child == 0) {
        char *arguments[] = {(char *)(uintptr_t)bad_path, (char *)(uintptr_t)scratch, NULL}, *none[] = {NULL};
        syscall(SYS_execveat, d, p, arguments, none, 0);
        _exit(101);
    }
    return ran(child);
}
CALL(vfork_open) { /* the child opens and reads; what it read stays in memory that is the parent's too */
    static char content[64];
    static int printed;
    content[0] = 0;
    pid_t child = vfork();
    if (child == 0) {
        long fd = syscall(SYS_openat, d, p, O_RDONLY);
        if (fd >= 0 && pread((int)fd, content, sizeof content - 1, 0) < 0) content[0] = 0;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    if (content[0] == 0) return -1;
    if (strncmp(content, "allowed", 7) == 0) return 0;
    if (!printed++) printf("read: %s\n", content);
    return 1;
}

static const struct operation {
    const char *name;
    long (*call)(const char *path, int directory);
    enum kind kind;
} operations[] = {
#define OF(name, kind) \
    { #name, call_##name, kind }
    OF(open, READS),        OF(openat, READS),     OF(nofollow, READS),  OF(openat2, READS),
    OF(openhow, OPENS),     OF(append, OPENS),     OF(trunc, OPENS),     OF(trunc_nofollow, OPENS),
    OF(read_trunc, OPENS), OF(creat, OPENS),       OF(truncate, CHANGES), OF(unlink, CHANGES),  OF(chmod, CHANGES),
    OF(fchmodat2, CHANGES), OF(chown, CHANGES),    OF(utimens, CHANGES), OF(setxattr, CHANGES), OF(setxattrat, CHANGES),
    OF(mkdir, MAKES),       OF(mknod, MAKES),      OF(symlink, MAKES),   OF(create, MAKES),
    OF(link, MAKES),        OF(linkfrom, COPIES),  OF(rename, CHANGES),  OF(renamefrom, CHANGES),
    OF(swap, CHANGES),      OF(fchmod, CHANGES),   OF(fchown, CHANGES),  OF(futimens, CHANGES),
    OF(fsetxattr, CHANGES), OF(exec, RUNS),        OF(exec_vfork, RUNS), OF(execveat, RUNS),
    OF(vfork_open, RUNS),   OF(identity, RUNS),
};

/* ---- what came of it ---- */

/* 1: this descriptor is BAD's victim, 0: GOOD's. Closes it. */
static int is_secret(int fd) {
    static int printed;
    char content[256];
    ssize_t got = pread(fd, content, sizeof content - 1, 0);
    close(fd);
    if (got <= 0) return 0;
    content[got] = 0;
    if (strncmp(content, "allowed", 7) == 0) return 0;
    if (!printed++) printf("read: %s\n", content);
    return 1;
}

/* All of an object that a call here could change. */
struct state {
    int exists;
    ino_t inode;
    mode_t mode;
    off_t size;
    struct timespec changed, modified;
    long attribute;
};

static struct state look(const char *path) {
    struct stat st;
    struct state seen;
    memset(&seen, 0, sizeof seen);
    if (lstat(path, &st) != 0) return seen;
    seen.exists = 1, seen.inode = st.st_ino, seen.mode = st.st_mode, seen.size = st.st_size;
    seen.changed = st.st_ctim, seen.modified = st.st_mtim;
    if (lgetxattr(path, "user.raced", &seen.attribute, sizeof seen.attribute) < 0) seen.attribute = -1;
    return seen;
}

static int differs(struct state a, struct state b) { return memcmp(&a, &b, sizeof a) != 0; }

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

static void count(int bad_reached) { bad_reached ? won++ : twin++; }

/* `cur` of the racers that exchange directories is the allowed side there. */
static int good_is_scratch(void) { return !strcmp(racer, "exchange") || !strcmp(racer, "replace"); }

static void try_once(const struct operation *op) {
    struct state before = look(bad_path);
    long result = op->call(area->path, raced_fd);
    switch (op->kind) {
        case RUNS:
            if (result >= 0) count(result == 1);
            return;
        case READS:
            if (result >= 0) count(is_secret((int)result));
            return;
        case COPIES:
            if (result == 0) count(is_secret(open(scratch_name("linked"), O_RDONLY | O_CLOEXEC)));
            return;
        case OPENS:
            if (result >= 0) close((int)result);
            break;
        default:
            break;
    }
    if (result >= 0) count(differs(before, look(bad_path)));
    put_back(bad, "secret put back", op->kind == MAKES);
    put_back(good, "allowed", op->kind == MAKES);
    if (op->kind == MAKES && good_is_scratch()) put_back(link_name, "allowed", 1);
}

static const struct operation *find(const char *name) {
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0) return &operations[i];
    fail("no such call");
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    const struct operation *op = find(argv[1]);
    racer = argv[2], good = argv[3], bad = argv[4], scratch = argv[5];
    double end = now() + atof(argv[6]) / 1000;
    long rounds = atol(argv[7]), wins = atol(argv[8]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (op->kind == MAKES) strcpy(leaf, "made");
    snprintf(good_path, sizeof good_path, "%s/%s", good, leaf);
    snprintf(bad_path, sizeof bad_path, "%s/%s", bad, leaf);
    area = mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) fail("mmap");
    close(open(scratch_name("source"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    start_racer();
    // On a busy machine the racer may not have run at all by then: a race that nobody else was in proves nothing.
    double last = end + 20;
    while ((tried < rounds || won < wins || twin == 0) && now() < (twin ? end : last)) try_once(op), tried++;
    atomic_store(&area->stop, 1);
    if (helper > 0) {
        kill(helper, SIGKILL);
        waitpid(helper, NULL, 0);
    }
    printf("%s WON %ld TWIN %ld TRIED %ld\n", won ? "WON" : "HELD", won, twin, tried);
    fflush(stdout);
    _exit(0);
}
