/* Links: a name that somebody opens later is made to lead elsewhere.
 *
 *   attack_link MODE NAME ELSEWHERE FREE
 *
 * NAME is the name to replace; "" stands for $TMPDIR. ELSEWHERE is the directory that it shall lead to. In
 * FREE anything may be made. NAME is an empty directory, or absent. The test looks at NAME from outside
 * afterwards.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../programs/text.h"
#include "attack.h"

static const char *target, *elsewhere, *spare;
static char above[4096], leaf[256], above_name[256], top[4096];

static const char *in(const char *directory, const char *name) { return text("%s/%s", directory, name); }

static long exchange(const char *one, const char *other) {
    return syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}

/* A link in FREE that leads elsewhere. */
static const char *prepared(void) {
    const char *link = in(spare, "link");
    unlink(link);
    if (symlink(elsewhere, link) != 0) perror("symlink");
    return link;
}

/* A directory in FREE that holds a link with the name's last component. */
static const char *carrier(void) {
    const char *directory = in(spare, "carrier");
    mkdir(directory, 0755);
    if (symlink(elsewhere, in(directory, leaf)) != 0) perror("symlink");
    return directory;
}

static int absent(void) { return rmdir(target) == 0 || errno == ENOENT; }

MODE(symlink) { return absent() ? done(symlink(elsewhere, target), "symlink") : refused("rmdir"); }

MODE(symlinkat) {
    int directory = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (unlinkat(directory, leaf, AT_REMOVEDIR) != 0 && errno != ENOENT) return refused("unlinkat");
    return done(symlinkat(elsewhere, directory, leaf), "symlinkat");
}

MODE(relative) {
    if (chdir(above) != 0) return refused("chdir");
    if (rmdir(leaf) != 0 && errno != ENOENT) return refused("rmdir");
    return done(symlink(elsewhere, text("./%s", leaf)), "symlink");
}

/* From inside: the working directory is what goes. */
MODE(from_inside) {
    if (chdir(target) != 0) return refused("chdir");
    if (rmdir(text("../%s", leaf)) != 0) return refused("rmdir");
    return done(symlink(elsewhere, target), "symlink");
}

MODE(through_proc) {
    int directory = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *name = text("/proc/self/fd/%d/%s", directory, leaf);
    if (rmdir(name) != 0 && errno != ENOENT) return refused("rmdir");
    return done(symlink(elsewhere, name), "symlink");
}

MODE(moved_away) {
    if (rename(target, in(spare, "old")) != 0) return refused("rename");
    return done(symlink(elsewhere, target), "symlink");
}

MODE(renameat_away) {
    int from = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC),
        to = open(spare, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (renameat(from, leaf, to, "old") != 0) return refused("renameat");
    return done(symlinkat(elsewhere, from, leaf), "symlinkat");
}

MODE(rename_link) {
    const char *ready = prepared();
    return absent() ? done(rename(ready, target), "rename") : refused("rmdir");
}

MODE(noreplace_link) {
    const char *ready = prepared();
    if (!absent()) return refused("rmdir");
    return done(syscall(SYS_renameat2, AT_FDCWD, ready, AT_FDCWD, target, RENAME_NOREPLACE), "renameat2");
}

MODE(exchange_link) { return done(exchange(prepared(), target), "renameat2"); }

/* The name comes first: the link is the second object of the exchange. */
MODE(exchange_back) { return done(exchange(target, prepared()), "renameat2"); }

MODE(link_link) {
    const char *ready = prepared();
    return absent() ? done(link(ready, target), "link") : refused("rmdir");
}

MODE(linkat_pin) {
    const char *ready = prepared();
    if (!absent()) return refused("rmdir");
    int pin = open(ready, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return done(linkat(AT_FDCWD, text("/proc/self/fd/%d", pin), AT_FDCWD, target, AT_SYMLINK_FOLLOW),
                "linkat");
}

/* Another directory takes the place: what the next run finds there is not what the user made. */
MODE(other_directory) {
    const char *other = in(spare, "other");
    mkdir(other, 0755);
    return done(rename(other, target), "rename");
}

MODE(exchange_directory) {
    const char *other = in(spare, "other");
    mkdir(other, 0755);
    return done(exchange(other, target), "renameat2");
}

/* A directory on the way is moved, and a link takes its name. ELSEWHERE holds the last component, too. */
MODE(above_moved) {
    if (rename(above, in(spare, "old")) != 0) return refused("rename");
    return done(symlink(elsewhere, above), "symlink");
}

/* The same by a name that leads there from below. */
MODE(above_moved_at) {
    int from = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC),
        to = open(spare, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (renameat(from, above_name, to, "old") != 0) return refused("renameat");
    return done(symlinkat(elsewhere, from, above_name), "symlinkat");
}

MODE(above_exchanged) { return done(exchange(above, prepared()), "renameat2"); }

/* A directory brings the link along under the name's last component. */
MODE(carried) {
    const char *directory = carrier();
    if (rmdir(target) != 0 && errno != ENOENT) return refused("rmdir");
    if (rmdir(above) != 0 && errno != ENOENT && rename(above, in(spare, "old")) != 0)
        return refused("rename");
    return done(rename(directory, above), "rename");
}

MODE(carried_exchange) { return done(exchange(carrier(), above), "renameat2"); }

/* A directory that nobody may search hides what it carries. */
MODE(carried_hidden) {
    const char *directory = carrier();
    rmdir(target);
    chmod(directory, 0200);
    long result = rename(above, in(spare, "old")) == 0 ? rename(directory, above) : -1;
    int error = errno;
    chmod(directory, 0755);
    chmod(above, 0755);
    errno = error;
    return done(result, "rename");
}

/* The link is made after the directory was moved. */
MODE(made_after) {
    const char *directory = in(spare, "fresh");
    mkdir(directory, 0755);
    rmdir(target);
    if (rename(above, in(spare, "old")) != 0) return refused("rename");
    if (rename(directory, above) != 0) return refused("rename");
    return done(symlink(elsewhere, target), "symlink");
}

/* ---- a race: what was a file when it was looked at is a link ---- */

static atomic_int stop;

static void *swap(void *unused) {
    (void)unused;
    const char *name = in(spare, "swapped"), *link = in(spare, "ready"), *file = in(spare, "file");
    while (!atomic_load(&stop)) {
        close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        rename(file, name);
        if (symlink(elsewhere, link) == 0) rename(link, name);
    }
    return NULL;
}

MODE(swapped) {
    pthread_t thread;
    if (!absent()) return refused("rmdir");
    if (pthread_create(&thread, NULL, swap, NULL) != 0) return refused("pthread_create");
    struct stat status;
    int won = 0;
    time_t end = time(NULL) + 10;
    for (int round = 0, turn = 0; round < 12000 && !won && time(NULL) < end; turn++) {
        /* On an idle machine the two threads would keep step: each turn waits a little longer than the last. */
        for (volatile int pause = turn % 128 * 48; pause > 0; pause--) continue;
        long result = rename(in(spare, "swapped"), target);
        if (result == 0) won = lstat(target, &status) == 0 && S_ISLNK(status.st_mode);
        round += result == 0 || errno != ENOENT; /* there was something to move */
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    errno = EACCES;
    return won ? 0 : refused("no round was won");
}

/* ---- what must still work at such a name ---- */

MODE(made_anew) {
    if (!absent() || mkdir(target, 0700) != 0) return refused("mkdir");
    return done(rmdir(target) == 0 ? mkdir(target, 0755) : -1, "mkdir");
}

MODE(saved) {
    const char *file = in(spare, "new");
    int fd = open(file, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "new\n", 4) != 4 || close(fd) != 0) return refused("write");
    if (!absent()) return refused("rmdir");
    return done(rename(file, target), "rename");
}

MODE(directory_renamed) {
    const char *other = in(spare, "other");
    mkdir(other, 0755);
    return done(rename(other, target), "rename");
}

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    target = argv[2][0] != 0 ? argv[2] : getenv("TMPDIR"), elsewhere = argv[3], spare = argv[4];
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", target);
    snprintf(leaf, sizeof leaf, "%s", basename(copy));
    snprintf(copy, sizeof copy, "%s", target);
    snprintf(above, sizeof above, "%s", dirname(copy));
    snprintf(copy, sizeof copy, "%s", above);
    snprintf(above_name, sizeof above_name, "%s", basename(copy));
    snprintf(copy, sizeof copy, "%s", above);
    snprintf(top, sizeof top, "%s", dirname(copy));
    return run_mode(argv[1]);
}
