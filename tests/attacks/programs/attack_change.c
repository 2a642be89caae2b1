/* Changing a denied file or its directory, or a readable file through the descriptor of reading it (door.h).
 */
#define _GNU_SOURCE
#include <linux/fs.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "door.h"

MODE(truncate) { return done(truncate(victim, 1), "truncate"); }
MODE(open_trunc) { return done(open(victim, O_RDONLY | O_TRUNC), "O_TRUNC"); }
MODE(creat) { return done(creat(victim, 0600), "creat"); }
MODE(append) {
    int fd = open(victim, O_WRONLY | O_APPEND);
    return fd < 0 ? refused("append") : done(write(fd, "+", 1), "write");
}
MODE(unlink) { return done(unlink(victim), "unlink"); }
MODE(unlinkat) {
    int fd = open(folder, O_PATH | O_DIRECTORY);
    return done(unlinkat(fd, name, 0), "unlinkat");
}
MODE(unlink_link) {
    if (symlink(folder, in(allowed, "unlink-through")) != 0) return refused("symlink");
    return done(unlink(in(in(allowed, "unlink-through"), name)), "unlink");
}
MODE(rename_away) { return done(rename(victim, in(folder, "other-name")), "rename"); }
MODE(rename_onto) {
    const char *mine = own_file("onto");
    return done(rename(mine, victim), "rename");
}
MODE(rename_into) {
    const char *mine = own_file("into");
    return done(rename(mine, in(folder, "planted")), "rename");
}
MODE(chmod) { return done(chmod(victim, 0777), "chmod"); }
MODE(chmod_fd) {
    const char *self = text("/proc/self/fd/%d", open(victim, O_PATH));
    return done(chmod(self, 0777), "chmod");
}
MODE(fchmodat2) { return done(syscall(452, open(victim, O_PATH), "", 0777, AT_EMPTY_PATH), "fchmodat2"); }
MODE(chown) { return done(chown(victim, getuid(), getgid()), "chown"); }
MODE(lchown) { return done(lchown(victim, getuid(), getgid()), "lchown"); }
MODE(fchownat) { return done(fchownat(open(victim, O_PATH), "", getuid(), getgid(), AT_EMPTY_PATH), "fchownat"); }
MODE(utimensat) { return done(utimensat(AT_FDCWD, victim, NULL, 0), "utimensat"); }
MODE(utimensat_fd) { return done(syscall(SYS_utimensat, open(victim, O_PATH), "", NULL, AT_EMPTY_PATH), "utimensat"); }
/* the calls themselves, which the C library no longer makes; newer architectures have none of them */
#ifdef SYS_utime
MODE(utime) { return done(syscall(SYS_utime, victim, NULL), "utime"); }
MODE(utimes) { return done(syscall(SYS_utimes, victim, NULL), "utimes"); }
MODE(futimesat) { return done(syscall(SYS_futimesat, AT_FDCWD, victim, NULL), "futimesat"); }
MODE(mknod) { return done(syscall(SYS_mknod, in(folder, "planted"), S_IFIFO | 0644, 0), "mknod"); }
#else
MODE(utime) { return UNSUPPORTED; }
MODE(utimes) { return UNSUPPORTED; }
MODE(futimesat) { return UNSUPPORTED; }
MODE(mknod) { return UNSUPPORTED; }
#endif
#ifdef SYS_renameat
MODE(renameat) { return done(syscall(SYS_renameat, AT_FDCWD, own_file("at"), AT_FDCWD, victim), "renameat"); }
#else
MODE(renameat) { return UNSUPPORTED; }
#endif
MODE(mkdir) { return done(mkdir(in(folder, "planted"), 0755), "mkdir"); }
MODE(mksymlink) { return done(symlink("x", in(folder, "planted")), "symlink"); }
MODE(mklink) {
    const char *mine = own_file("source");
    return done(link(mine, in(folder, "planted")), "link");
}
MODE(tmpfile) {
    int fd = open(allowed, O_TMPFILE | O_RDWR, 0644);
    if (fd < 0) return errno == EOPNOTSUPP ? UNSUPPORTED : refused("O_TMPFILE");
    return done(linkat(AT_FDCWD, text("/proc/self/fd/%d", fd), AT_FDCWD, in(folder, "planted"), AT_SYMLINK_FOLLOW),
                "linkat");
}
MODE(tmpfile_inside) { return done(open(folder, O_TMPFILE | O_RDWR, 0644), "O_TMPFILE"); }
MODE(dangling) {
    if (symlink(in(folder, "planted"), in(allowed, "dangling")) != 0) return refused("symlink");
    return done(open(in(allowed, "dangling"), O_CREAT | O_WRONLY, 0644), "open");
}
MODE(create) { return done(open(in(folder, "planted"), O_CREAT | O_WRONLY | O_EXCL, 0644), "open"); }
MODE(bind_socket) {
    struct sockaddr_un where;
    memset(&where, 0, sizeof where);
    where.sun_family = AF_UNIX;
    if (chdir(folder) != 0) return refused("chdir");
    strcpy(where.sun_path, "planted");
    return done(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&where, sizeof where), "bind");
}
MODE(rmdir_folder) {
    if (unlink(victim) != 0) return refused("unlink");
    return done(rmdir(folder), "rmdir");
}

/* a file that may be read but not written, through the descriptor of reading */
static int reader(void) {
    int fd = open(victim, O_RDONLY);
    if (fd < 0) exit(refused("open"));
    return fd;
}
MODE(reader_fchmod) { return done(fchmod(reader(), 0777), "fchmod"); }
MODE(reader_fchown) { return done(fchown(reader(), getuid(), getgid()), "fchown"); }
MODE(reader_futimens) { return done(futimens(reader(), NULL), "futimens"); }
MODE(reader_reopen) {
    const char *self = text("/proc/self/fd/%d", reader());
    int fd = open(self, O_WRONLY | O_APPEND);
    return fd < 0 ? refused("reopen") : done(write(fd, "+", 1), "write");
}
MODE(reader_dev_fd) {
    const char *self = text("/dev/fd/%d", reader());
    return done(open(self, O_WRONLY | O_TRUNC), "reopen");
}

/* ---- other ways to the same change ---- */

MODE(rdonly_trunc_openat2) {
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_RDWR | O_TRUNC, 0, 0};
    return done(syscall(SYS_openat2, AT_FDCWD, victim, &how, sizeof how), "openat2");
}
MODE(high_bits_unlink) {
    return done(syscall(SYS_unlinkat, (long)AT_FDCWD & 0xffffffffL, victim, 1L << 40), "unlinkat");
}
static int folder_fd(void) { return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC); }
MODE(mkdirat) { return done(mkdirat(folder_fd(), "planted", 0755), "mkdirat"); }
MODE(mkfifo) { return done(mkfifo(in(folder, "planted"), 0644), "mkfifo"); }
MODE(mksocket) { return done(mknod(in(folder, "planted"), S_IFSOCK | 0644, 0), "mknod"); }
/* a device of the numbers 0:0, which the kernel lets everybody make */
MODE(mkwhiteout) { return done(mknod(in(folder, "planted"), S_IFCHR | 0644, 0), "mknod"); }
/* /dev/null by another name */
MODE(mkdevice) {
    if (mknod(in(allowed, "null"), S_IFCHR | 0666, makedev(1, 3)) != 0) return refused("mknod");
    return done(open(in(allowed, "null"), O_WRONLY), "open");
}
MODE(mknodat) { return done(mknodat(folder_fd(), "planted", S_IFREG | 0644, 0), "mknodat"); }
MODE(symlinkat) { return done(symlinkat("x", folder_fd(), "planted"), "symlinkat"); }
MODE(renameat2_noreplace) {
    return done(syscall(SYS_renameat2, AT_FDCWD, own_file("noreplace"), folder_fd(), "planted", RENAME_NOREPLACE),
                "renameat2");
}
MODE(whiteout) { /* what a renamed file leaves behind */
    return done(syscall(SYS_renameat2, AT_FDCWD, victim, AT_FDCWD, in(allowed, "white"), RENAME_WHITEOUT), "whiteout");
}
MODE(exchange_into) {
    return done(syscall(SYS_renameat2, AT_FDCWD, own_file("exchanged"), AT_FDCWD, victim, RENAME_EXCHANGE), "exchange");
}
MODE(rename_folder_onto) { /* an empty directory takes the place of another */
    if (unlink(victim) != 0) return refused("unlink");
    return done(rename(own_folder("empty"), folder), "rename");
}
MODE(plant_folder) { /* what a directory holds comes along with it */
    const char *mine = own_folder("carrier");
    int fd = open(in(mine, "planted"), O_CREAT | O_WRONLY, 0644);
    if (fd < 0) return refused("source");
    close(fd);
    return done(rename(mine, in(folder, "carrier")), "rename");
}
MODE(through_link) { /* the parent is named by a link */
    if (symlink(folder, in(allowed, "way")) != 0) return refused("symlink");
    return done(open(in(allowed, "way/planted"), O_CREAT | O_WRONLY | O_EXCL, 0644), "open");
}
MODE(trailing_slash) { return done(mkdir(in(folder, "planted///"), 0755), "mkdir"); }
MODE(dangling_chain) {
    if (symlink(in(folder, "planted"), in(allowed, "one")) != 0 || symlink("one", in(allowed, "two")) != 0)
        return refused("symlink");
    return done(creat(in(allowed, "two"), 0644), "creat");
}
MODE(proc_cwd_create) {
    if (chdir(folder) != 0) return refused("chdir");
    return done(open("/proc/self/cwd/planted", O_CREAT | O_WRONLY, 0644), "open");
}
MODE(proc_cwd_mkdir) { /* the directory's own name is the last link on the way */
    if (chdir(parent) != 0) return refused("chdir");
    return done(mkdir(text("/proc/self/cwd/%s/planted", folder_name), 0755), "mkdir");
}
MODE(tmpfile_empty) { /* a nameless file gets a name by its descriptor alone */
    int fd = open(allowed, O_TMPFILE | O_RDWR, 0644);
    if (fd < 0) return errno == EOPNOTSUPP ? UNSUPPORTED : refused("O_TMPFILE");
    if (linkat(fd, "", folder_fd(), "planted", AT_EMPTY_PATH) != 0)
        return errno == ENOENT ? UNSUPPORTED : refused("linkat");
    return 0;
}
MODE(utimensat_omitted) { /* one of the two times */
    struct timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};
    return done(utimensat(AT_FDCWD, victim, times, AT_SYMLINK_NOFOLLOW), "utimensat");
}
MODE(core) { /* the kernel itself writes the file of a process that dies */
    char pattern[128] = "";
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY), status;
    if (fd < 0 || read(fd, pattern, sizeof pattern - 1) < 0) return refused("core_pattern");
    if (pattern[0] == '|' || pattern[0] == '/') return UNSUPPORTED;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit most;
        getrlimit(RLIMIT_CORE, &most);
        most.rlim_cur = most.rlim_max;
        if (chdir(folder) != 0 || setrlimit(RLIMIT_CORE, &most) != 0) _exit(1);
        kill(getpid(), SIGQUIT);
        _exit(2);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WCOREDUMP(status) ? 0 : REFUSED;
}
