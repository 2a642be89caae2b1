/* Making a program that runs as its owner: PROGRAM MODE FILE FOLDER (door.h). FILE exists and belongs to the
 * caller, FOLDER is where it may make others.
 */
#define _GNU_SOURCE
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "door.h"

#define BITS (S_ISUID | S_ISGID)

static const char *planted(void) { return in(allowed, "planted"); }

MODE(chmod) { return done(syscall(SYS_fchmodat, AT_FDCWD, victim, BITS | 0755, 0), "fchmodat"); }
#ifdef SYS_chmod
MODE(chmod_old) { return done(syscall(SYS_chmod, victim, BITS | 0755), "chmod"); }
MODE(open_old) { return done(syscall(SYS_open, planted(), O_CREAT | O_WRONLY, BITS | 0755), "open"); }
MODE(creat) { return done(syscall(SYS_creat, planted(), BITS | 0755), "creat"); }
MODE(mknod_old) { return done(syscall(SYS_mknod, planted(), S_IFREG | BITS | 0755, 0), "mknod"); }
#else
MODE(chmod_old) { return UNSUPPORTED; }
MODE(open_old) { return UNSUPPORTED; }
MODE(creat) { return UNSUPPORTED; }
MODE(mknod_old) { return UNSUPPORTED; }
#endif
MODE(chmod_high) { return done(syscall(SYS_fchmodat, AT_FDCWD, victim, 0xabcd00000000L | BITS | 0755), "fchmodat"); }
MODE(chmod_user) { return done(chmod(victim, S_ISUID | 0711), "chmod"); }
MODE(chmod_group) { return done(chmod(victim, S_ISGID | 0711), "chmod"); }
MODE(chmod_link) {
    if (symlink(victim, planted()) != 0) return refused("symlink");
    return done(chmod(planted(), BITS | 0755), "chmod");
}
MODE(chmod_fd) { return done(chmod(text("/proc/self/fd/%d", open(victim, O_PATH)), BITS | 0755), "chmod"); }
MODE(fchmod) { return done(fchmod(open(victim, O_RDONLY), BITS | 0755), "fchmod"); }
MODE(fchmodat2) { return done(syscall(452, open(victim, O_PATH), "", BITS | 0755, AT_EMPTY_PATH), "fchmodat2"); }
MODE(openat) { return done(openat(AT_FDCWD, planted(), O_CREAT | O_RDWR | O_EXCL, BITS | 0755), "openat"); }
MODE(mknodat) { return done(mknodat(AT_FDCWD, planted(), S_IFREG | BITS | 0755, 0), "mknodat"); }
MODE(tmpfile) {
    int fd = open(allowed, O_TMPFILE | O_RDWR, BITS | 0755);
    if (fd < 0) return errno == EOPNOTSUPP ? UNSUPPORTED : refused("O_TMPFILE");
    const char *self = text("/proc/self/fd/%d", fd);
    return done(linkat(AT_FDCWD, self, AT_FDCWD, planted(), AT_SYMLINK_FOLLOW), "linkat");
}
MODE(openat2) {
    struct open_how how = {.flags = O_CREAT | O_WRONLY, .mode = BITS | 0755};
    return done(syscall(SYS_openat2, AT_FDCWD, planted(), &how, sizeof how), "openat2");
}
MODE(socket) {
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fchmod(fd, BITS | 0755) != 0 || chdir(allowed) != 0) return refused("fchmod");
    strcpy(where.sun_path, "planted");
    return done(bind(fd, (struct sockaddr *)&where, sizeof where), "bind");
}

/* Another thread changes mode and flags of openat2 while the call is decided. */
static volatile struct open_how flipped = {.flags = O_CREAT | O_WRONLY, .mode = BITS | 0755};
static volatile int stop;

static void *flip(void *unused) {
    (void)unused;
    while (!stop) {
        flipped.mode = 0755;
        flipped.flags = O_CREAT | O_WRONLY;
        flipped.mode = 0;
        flipped.flags = O_PATH;
        flipped.flags = O_CREAT | O_WRONLY;
        flipped.mode = BITS | 0755;
    }
    return NULL;
}

MODE(openat2_race) {
    int rounds = atoi(extra), made = 0;
    pthread_t other;
    for (int round = 0; round < rounds; round++) {
        /* The first round is alone: it shows what the race is about. */
        if (round == 1 && pthread_create(&other, NULL, flip, NULL) != 0) return refused("pthread_create");
        long fd = syscall(SYS_openat2, AT_FDCWD, text("%s-%d", planted(), round), (void *)&flipped, sizeof flipped);
        if (fd >= 0) made++, close((int)fd);
    }
    stop = 1;
    pthread_join(other, NULL);
    return made > 0 ? 0 : refused("openat2");
}

/* What stays possible: ordinary modes, and directories that hand on their group. */
MODE(ordinary) {
    struct stat there;
    int fd = open(planted(), O_CREAT | O_WRONLY, 0755);
    if (fd < 0 || fchmod(fd, 01755) != 0 || chmod(victim, 0700) != 0) return refused("chmod");
    const char *made = in(allowed, "made"), *changed = in(allowed, "changed");
    if (mkdir(made, 0755) != 0 || chmod(made, S_ISGID | 0775) != 0 || mkdir(changed, 0700) != 0) return refused("mkdir");
    int directory = open(changed, O_RDONLY | O_DIRECTORY);
    if (fchmod(directory, S_ISGID | 0770) != 0) return refused("fchmod");
    if (stat(made, &there) != 0 || (there.st_mode & 07777) != (S_ISGID | 0775)) return REFUSED;
    if (fstat(directory, &there) != 0 || (there.st_mode & 07777) != (S_ISGID | 0770)) return REFUSED;
    return done(fstat(fd, &there) != 0 || (there.st_mode & 07777) != 01755 ? -1 : 0, "fstat");
}
