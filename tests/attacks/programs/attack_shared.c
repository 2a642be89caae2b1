/* POSIX shared memory and semaphores of an outside process: PROGRAM MODE FILE FOLDER DIRECTORY (door.h). FILE and
 * DIRECTORY/inner stand directly beneath /dev/shm and hold a secret. FOLDER is made here, and names beside it.
 */
#define _GNU_SOURCE
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "door.h"

static const char *beside(void) { return text("%s-beside", allowed); }
static const char *inner(void) { return in(extra, "inner"); }

/* An entry of one's own with this content. */
static const char *entry(const char *content) {
    int fd = open(beside(), O_CREAT | O_RDWR | O_EXCL, 0600);
    if (fd < 0 || write(fd, content, strlen(content)) < 0) refused("own entry");
    close(fd);
    return beside();
}

static int overwrite(int fd, const char *what) {
    if (fd < 0) return refused(what);
    char *memory = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return refused("mmap");
    memcpy(memory, "evil", 4);
    return 0;
}

MODE(read) { return show_path(victim); }
MODE(write) { return overwrite(open(victim, O_RDWR), "O_RDWR"); }
MODE(create) { return overwrite(open(victim, O_RDWR | O_CREAT, 0600), "O_CREAT"); }
MODE(trunc) { return done(open(victim, O_WRONLY | O_TRUNC), "O_TRUNC"); }
MODE(truncate) { return done(truncate(victim, 0), "truncate"); }
MODE(unlink) { return done(unlink(victim), "unlink"); }
MODE(chmod) { return done(chmod(victim, 0666), "chmod"); }
MODE(rename_away) { return done(rename(victim, beside()), "rename"); }
MODE(rename_onto) { return done(rename(entry("evil"), victim), "rename"); }
MODE(exchange) {
    const char *own = entry("evil");
    return done(syscall(SYS_renameat2, AT_FDCWD, own, AT_FDCWD, victim, RENAME_EXCHANGE), "exchange");
}
MODE(link) {
    if (link(victim, beside()) != 0) return refused("link");
    return show_path(beside());
}
MODE(link_inside) {
    if (mkdir(allowed, 0700) != 0 || link(victim, in(allowed, "one")) != 0) return refused("link");
    return show_path(in(allowed, "one"));
}
MODE(symlink) {
    if (symlink(victim, beside()) != 0) return refused("symlink");
    return show_path(beside());
}
MODE(dotdot) {
    if (mkdir(allowed, 0700) != 0) return refused("mkdir");
    return show_path(text("%s/../%s", allowed, name));
}
MODE(inner_read) { return show_path(inner()); }
MODE(inner_write) { return overwrite(open(inner(), O_RDWR), "O_RDWR"); }
MODE(inner_create) { return done(open(in(extra, "planted"), O_CREAT | O_WRONLY, 0600), "O_CREAT"); }
MODE(inner_temporary) {
    int fd = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (fd < 0 || write(fd, "evil", 4) != 4) return refused("O_TMPFILE");
    return done(linkat(AT_FDCWD, text("/proc/self/fd/%d", fd), AT_FDCWD, in(extra, "planted"), AT_SYMLINK_FOLLOW), "linkat");
}
MODE(directory_away) { return done(rename(extra, beside()), "rename"); }
