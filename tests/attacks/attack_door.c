/* One reach for a denied file by an unusual door.
 *
 *   attack_door MODE VICTIM ALLOWED [EXTRA]
 *
 * VICTIM is the file, ALLOWED a directory in which everything is allowed, EXTRA what the mode needs. Reading modes print
 * what they read; changing modes change VICTIM or its directory. Exit 0: the door was open; 1: it was not; 77: this
 * kernel has no such door. The test looks at the victim from outside.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

static const char *victim, *allowed, *extra;
static char folder[4096], name[256], parent[4096], folder_name[256];

static int refused(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return errno == ENOSYS ? 77 : 1;
}

static const char *in(const char *directory, const char *leaf) {
    static char room[8][8192];
    static int turn;
    char *one = room[turn++ & 7];
    snprintf(one, sizeof room[0], "%s/%s", directory, leaf);
    return one;
}

static int show(long fd, const char *what) {
    char content[256];
    if (fd < 0) return refused(what);
    ssize_t got = read((int)fd, content, sizeof content - 1);
    if (got < 0) return refused("read");
    content[got] = 0;
    printf("got: %s\n", content);
    return 0;
}

static int show_path(const char *path) { return show(open(path, O_RDONLY | O_CLOEXEC), path); }
static int done(long result, const char *what) { return result < 0 ? refused(what) : 0; }

/* ---- reading ---- */

static int door_plain(void) { return show_path(victim); }
static int door_rdwr(void) { return show(open(victim, O_RDWR), "rdwr"); }
static int door_openat2(void) {
    struct open_how how = {O_RDONLY, 0, 0};
    return show(syscall(SYS_openat2, AT_FDCWD, victim, &how, sizeof how), "openat2");
}
static int door_hardlink(void) {
    if (link(victim, in(allowed, "hard")) != 0) return refused("link");
    return show_path(in(allowed, "hard"));
}
static int door_hardlink_fd(void) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, in(allowed, "hard-fd"), AT_SYMLINK_FOLLOW) != 0) return refused("linkat");
    return show_path(in(allowed, "hard-fd"));
}
static int door_hardlink_empty(void) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    if (linkat(fd, "", AT_FDCWD, in(allowed, "hard-empty"), AT_EMPTY_PATH) != 0) return errno == ENOENT ? 77 : refused("linkat");
    return show_path(in(allowed, "hard-empty"));
}
static int door_symlink(void) {
    if (symlink(victim, in(allowed, "soft")) != 0) return refused("symlink");
    return show_path(in(allowed, "soft"));
}
static int door_chain(void) {
    char target[4096], link_name[64];
    snprintf(target, sizeof target, "%s", victim);
    for (int i = 0; i < 38; i++) {
        snprintf(link_name, sizeof link_name, "chain%d", i);
        if (symlink(target, in(allowed, link_name)) != 0) return refused("symlink");
        snprintf(target, sizeof target, "%s", link_name);
    }
    return show_path(in(allowed, target));
}
static int door_folder_link(void) {
    if (symlink(folder, in(allowed, "folder")) != 0) return refused("symlink");
    return show_path(in(allowed, in("folder", name)));
}
static int door_dotdot(void) {
    char path[8192];
    snprintf(path, sizeof path, "%s/./../%s/.//%s", folder, folder_name, name);
    return show_path(path);
}
static int door_slashes(void) {
    char path[8192];
    snprintf(path, sizeof path, "//%s//.//%s", folder, name);
    return show_path(path);
}
static int door_relative(void) {
    if (chdir(folder) != 0) return refused("chdir");
    return show_path(name);
}
static int door_proc_cwd(void) {
    if (chdir(folder) != 0) return refused("chdir");
    return show_path(in("/proc/self/cwd", name));
}
static int door_proc_root(void) {
    char path[8192];
    snprintf(path, sizeof path, "/proc/self/root%s", victim);
    return show_path(path);
}
static int door_thread_root(void) {
    char path[8192];
    snprintf(path, sizeof path, "/proc/thread-self/root%s", victim);
    return show_path(path);
}
static int door_child_root(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    char path[8192];
    snprintf(path, sizeof path, "/proc/%d/root%s", child, victim);
    int result = show_path(path);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return result;
}
static int door_child_cwd(void) {
    int ready[2];
    char byte;
    if (pipe(ready) != 0) return refused("pipe");
    pid_t child = fork();
    if (child == 0) {
        if (chdir(folder) == 0 && write(ready[1], "x", 1) == 1) pause();
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1) return refused("child");
    char path[8192];
    snprintf(path, sizeof path, "/proc/%d/cwd/%s", child, name);
    int result = show_path(path);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return result;
}
static int reopen(const char *format) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    char path[64];
    if (fd < 0) return refused("O_PATH");
    snprintf(path, sizeof path, format, fd);
    return show_path(path);
}
static int door_proc_fd(void) { return reopen("/proc/self/fd/%d"); }
static int door_thread_fd(void) { return reopen("/proc/thread-self/fd/%d"); }
static int door_dev_fd(void) { return reopen("/dev/fd/%d"); }
static int door_proc_fd_number(void) {
    char format[64];
    snprintf(format, sizeof format, "/proc/%d/fd/%%d", getpid());
    int fd = open(victim, O_PATH | O_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    return show_path(path);
}
static int door_stdin(void) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    if (fd < 0 || dup2(fd, 0) < 0) return refused("dup2");
    return show_path("/dev/stdin");
}
static int door_opath_folder(void) {
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return refused("O_PATH");
    return show(openat(fd, name, O_RDONLY | O_CLOEXEC), "openat");
}
static int door_inherited(void) { return show(openat(atoi(extra), name, O_RDONLY | O_CLOEXEC), "inherited"); }
static int door_received(void) {
    struct sockaddr_un where;
    memset(&where, 0, sizeof where);
    where.sun_family = AF_UNIX;
    snprintf(where.sun_path, sizeof where.sun_path, "%s", extra);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&where, sizeof where) != 0) return refused("connect");
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {NULL, 0, &data, 1, control, sizeof control, 0};
    if (recvmsg(fd, &message, 0) < 1) return refused("recvmsg");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL) return refused("no descriptor");
    int folder_fd;
    memcpy(&folder_fd, CMSG_DATA(header), sizeof folder_fd);
    return show(openat(folder_fd, name, O_RDONLY | O_CLOEXEC), "received");
}
static int door_rename(void) {
    if (rename(victim, in(allowed, "renamed")) != 0) return refused("rename");
    return show_path(in(allowed, "renamed"));
}
static int door_exchange(void) {
    const char *mine = in(allowed, "mine");
    close(open(mine, O_CREAT | O_WRONLY, 0644));
    if (syscall(SYS_renameat2, AT_FDCWD, mine, AT_FDCWD, victim, 2) != 0) return refused("exchange");
    return show_path(mine);
}
static int door_rename_folder(void) {
    if (rename(folder, in(allowed, "folder-moved")) != 0) return refused("rename");
    return show_path(in(allowed, in("folder-moved", name)));
}
static int door_exchange_folder(void) {
    const char *mine = in(allowed, "folder-mine");
    mkdir(mine, 0755);
    if (syscall(SYS_renameat2, AT_FDCWD, mine, AT_FDCWD, folder, 2) != 0) return refused("exchange");
    return show_path(in(mine, name));
}
/* PARENT/FOLDER/VICTIM: the parent of the denied folder gets another name */
static int door_rename_ancestor(void) {
    char moved[8192];
    snprintf(moved, sizeof moved, "%s-moved", parent);
    if (rename(parent, moved) != 0) return refused("rename");
    return show_path(in(moved, in(folder_name, name)));
}
static int door_exchange_ancestor(void) {
    const char *mine = in(allowed, "ancestor-mine");
    mkdir(mine, 0755);
    if (syscall(SYS_renameat2, AT_FDCWD, mine, AT_FDCWD, parent, 2) != 0) return refused("exchange");
    return show_path(in(mine, in(folder_name, name)));
}
static int door_cwd_kept(void) {
    char moved[8192];
    snprintf(moved, sizeof moved, "%s-moved", parent);
    if (chdir(folder) != 0) return refused("chdir");
    if (rename(parent, moved) != 0) return refused("rename");
    return show_path(name);
}
static int door_handle(void) {
    struct {
        struct file_handle handle;
        unsigned char room[128];
    } one;
    int mount_id, mount = open("/", O_RDONLY | O_DIRECTORY);
    one.handle.handle_bytes = sizeof one.room;
    if (name_to_handle_at(AT_FDCWD, victim, &one.handle, &mount_id, 0) != 0) return refused("name_to_handle_at");
    return show(open_by_handle_at(mount, &one.handle, O_RDONLY), "open_by_handle_at");
}

/* ---- the ring ---- */

static int ring_call(struct io_uring_sqe *request) {
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (ring < 0) {
        refused("io_uring_setup");
        return -errno;
    }
    size_t length = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t completions = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    if (completions > length) length = completions;
    char *rings = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *requests = mmap(NULL, 4 * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (rings == MAP_FAILED || requests == MAP_FAILED) return -errno;
    requests[0] = *request;
    ((unsigned *)(void *)(rings + params.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(void *)(rings + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) return -errno;
    return ((struct io_uring_cqe *)(void *)(rings + params.cq_off.cqes))[0].res;
}
static int door_ring(void) {
    struct io_uring_sqe request;
    memset(&request, 0, sizeof request);
    request.opcode = IORING_OP_OPENAT;
    request.fd = AT_FDCWD;
    request.addr = (uintptr_t)victim;
    int fd = ring_call(&request);
    errno = -fd;
    return show(fd, "io_uring openat");
}
static int door_ring_unlink(void) {
    struct io_uring_sqe request;
    memset(&request, 0, sizeof request);
    request.opcode = IORING_OP_UNLINKAT;
    request.fd = AT_FDCWD;
    request.addr = (uintptr_t)victim;
    int result = ring_call(&request);
    errno = result < 0 ? -result : 0;
    return done(result, "io_uring unlinkat");
}

/* ---- other entries to the kernel ---- */

#if defined(__x86_64__)
static long entry32(long number, long one, long two, long three) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(one), "c"(two), "d"(three) : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}
static char *low_copy(const char *text) {
    char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED) exit(77);
    strcpy(low, text);
    return low;
}
static int door_int80(void) {
    long fd = entry32(5, (long)low_copy(victim), O_RDONLY, 0);
    if (fd < 0) errno = (int)-fd;
    return show(fd, "int 0x80 open");
}
static int door_int80_unlink(void) {
    long result = entry32(10, (long)low_copy(victim), 0, 0);
    if (result < 0) errno = (int)-result;
    return done(result, "int 0x80 unlink");
}
static int door_x32(void) { return show(syscall(0x40000000 | SYS_open, victim, O_RDONLY), "x32 open"); }
#else
static int door_int80(void) { return 77; }
static int door_int80_unlink(void) { return 77; }
static int door_x32(void) { return 77; }
#endif

/* ---- namespaces and mounts ---- */

static void map_ids(void) {
    char text[64];
    unsigned uid = getuid(), gid = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) exit(refused("unshare"));
    int fd = open("/proc/self/setgroups", O_WRONLY);
    if (fd >= 0 && write(fd, "deny", 4) < 0) perror("setgroups");
    close(fd);
    snprintf(text, sizeof text, "0 %u 1", uid);
    fd = open("/proc/self/uid_map", O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) perror("uid_map");
    close(fd);
    snprintf(text, sizeof text, "0 %u 1", gid);
    fd = open("/proc/self/gid_map", O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) perror("gid_map");
    close(fd);
}
static int bind_and_read(void) {
    const char *place = in(allowed, "mounted");
    mkdir(place, 0755);
    if (mount(folder, place, NULL, MS_BIND, NULL) != 0) return refused("mount");
    int result = show_path(in(place, name));
    umount2(place, MNT_DETACH);
    return result;
}
static int door_userns(void) {
    map_ids();
    return bind_and_read();
}
static int door_userns_clone3(void) {
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.flags = CLONE_NEWUSER | CLONE_NEWNS;
    arguments.exit_signal = SIGCHLD;
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child < 0) return errno == ENOSYS ? 1 : refused("clone3");
    if (child == 0) {
        int result = bind_and_read();
        fflush(stdout);
        _exit(result);
    }
    int status;
    waitpid((pid_t)child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
static int door_userns_clone(void) {
    long child = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
    if (child < 0) return refused("clone");
    if (child == 0) {
        int result = bind_and_read();
        fflush(stdout);
        _exit(result);
    }
    int status;
    waitpid((pid_t)child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
static int door_userns_tree(void) {
    map_ids();
    const char *place = in(allowed, "tree-mounted");
    mkdir(place, 0755);
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0) return refused("open_tree");
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) != 0) return refused("move_mount");
    return show_path(in(place, name));
}
static int door_userns_chroot(void) {
    map_ids();
    if (chroot(folder) != 0) return refused("chroot");
    return show_path(in("", name));
}
static int door_chroot(void) {
    if (chroot(folder) != 0) return refused("chroot");
    return show_path(in("", name));
}
static int door_open_tree(void) {
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLOEXEC);
    if (tree < 0) return refused("open_tree");
    return show(openat(tree, name, O_RDONLY), "openat");
}
static int door_bind(void) {
    if (unshare(CLONE_NEWNS) != 0) return refused("unshare");
    if (mount("", "/", NULL, MS_PRIVATE | MS_REC, NULL) != 0) return refused("private");
    return bind_and_read();
}

/* ---- changing ---- */

static int door_truncate(void) { return done(truncate(victim, 1), "truncate"); }
static int door_open_trunc(void) { return done(open(victim, O_RDONLY | O_TRUNC), "O_TRUNC"); }
static int door_creat(void) { return done(creat(victim, 0600), "creat"); }
static int door_append(void) {
    int fd = open(victim, O_WRONLY | O_APPEND);
    return fd < 0 ? refused("append") : done(write(fd, "+", 1), "write");
}
static int door_unlink(void) { return done(unlink(victim), "unlink"); }
static int door_unlinkat(void) {
    int fd = open(folder, O_PATH | O_DIRECTORY);
    return done(unlinkat(fd, name, 0), "unlinkat");
}
static int door_unlink_link(void) {
    if (symlink(folder, in(allowed, "unlink-through")) != 0) return refused("symlink");
    return done(unlink(in(in(allowed, "unlink-through"), name)), "unlink");
}
static int door_rename_away(void) { return done(rename(victim, in(folder, "other-name")), "rename"); }
static int door_rename_onto(void) {
    const char *mine = in(allowed, "onto");
    close(open(mine, O_CREAT | O_WRONLY, 0644));
    return done(rename(mine, victim), "rename");
}
static int door_rename_into(void) {
    const char *mine = in(allowed, "into");
    close(open(mine, O_CREAT | O_WRONLY, 0644));
    return done(rename(mine, in(folder, "planted")), "rename");
}
static int door_chmod(void) { return done(chmod(victim, 0777), "chmod"); }
static int door_chmod_fd(void) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", open(victim, O_PATH));
    return done(chmod(self, 0777), "chmod");
}
static int door_fchmodat2(void) {
    return done(syscall(452, open(victim, O_PATH), "", 0777, AT_EMPTY_PATH), "fchmodat2");
}
static int door_chown(void) { return done(chown(victim, getuid(), getgid()), "chown"); }
static int door_lchown(void) { return done(lchown(victim, getuid(), getgid()), "lchown"); }
static int door_fchownat(void) { return done(fchownat(open(victim, O_PATH), "", getuid(), getgid(), AT_EMPTY_PATH), "fchownat"); }
static int door_utimensat(void) { return done(utimensat(AT_FDCWD, victim, NULL, 0), "utimensat"); }
static int door_utimensat_fd(void) { return done(syscall(SYS_utimensat, open(victim, O_PATH), "", NULL, AT_EMPTY_PATH), "utimensat"); }
static int door_utime(void) { return done(utime(victim, NULL), "utime"); }
static int door_utimes(void) { return done(syscall(SYS_utimes, victim, NULL), "utimes"); }
static int door_futimesat(void) { return done(syscall(SYS_futimesat, AT_FDCWD, victim, NULL), "futimesat"); }
static int door_setxattr(void) { return done(setxattr(victim, "user.callgate", "x", 1, 0), "setxattr"); }
static int door_lsetxattr(void) { return done(lsetxattr(victim, "user.callgate", "x", 1, 0), "lsetxattr"); }
/* the victim has the attribute user.kept, which the test has put there */
static int door_removexattr(void) { return done(removexattr(victim, "user.kept"), "removexattr"); }
static int door_lremovexattr(void) { return done(lremovexattr(victim, "user.kept"), "lremovexattr"); }
static int door_setxattr_link(void) {
    if (symlink(victim, in(allowed, "to-victim")) != 0) return refused("symlink");
    return done(setxattr(in(allowed, "to-victim"), "user.callgate", "x", 1, 0), "setxattr");
}
static int door_setxattr_proc(void) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", open(victim, O_PATH | O_CLOEXEC));
    return done(setxattr(self, "user.callgate", "x", 1, 0), "setxattr");
}
/* everybody may write: an access control list is an attribute */
static int door_acl(void) {
    static const unsigned char list[] = {2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 7, 0, 255, 255, 255, 255, 32, 0, 7, 0, 255, 255, 255, 255};
    return done(setxattr(victim, "system.posix_acl_access", list, sizeof list, 0), "setxattr");
}
static int door_acl_default(void) {
    static const unsigned char list[] = {2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 7, 0, 255, 255, 255, 255, 32, 0, 7, 0, 255, 255, 255, 255};
    return done(setxattr(folder, "system.posix_acl_default", list, sizeof list, 0), "setxattr");
}
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif
static long setxattrat(int folder_fd, const char *path, unsigned flags) {
    struct {
        uint64_t value;
        uint32_t size, flags;
    } arguments = {(uintptr_t) "x", 1, 0};
    return syscall(SYS_setxattrat, folder_fd, path, flags, "user.callgate", &arguments, sizeof arguments);
}
static int door_setxattrat(void) { return done(setxattrat(open(folder, O_PATH | O_CLOEXEC), name, 0), "setxattrat"); }
static int door_removexattrat(void) { return done(syscall(SYS_removexattrat, AT_FDCWD, victim, 0, "user.kept"), "removexattrat"); }
/* no program runs with the flag "no dump" by itself: it is seen by FS_IOC_GETFLAGS, and in the time of change */
static long file_setattr(int folder_fd, const char *path, unsigned flags) {
    uint64_t attributes[3] = {0x80, 0, 0};
    return syscall(SYS_file_setattr, folder_fd, path, attributes, sizeof attributes, flags);
}
static int door_file_setattr(void) { return done(file_setattr(open(folder, O_PATH | O_CLOEXEC), name, 0), "file_setattr"); }
static int door_mkdir(void) { return done(mkdir(in(folder, "planted"), 0755), "mkdir"); }
static int door_mknod(void) { return done(mknod(in(folder, "planted"), S_IFIFO | 0644, 0), "mknod"); }
static int door_mknodat(void) { return done(mknodat(open(folder, O_PATH | O_CLOEXEC), "planted", S_IFREG | 0644, 0), "mknodat"); }
static int door_mksocket(void) { return done(mknod(in(folder, "planted"), S_IFSOCK | 0644, 0), "mknod"); }
/* a device of the numbers 0:0, which the kernel lets everybody make */
static int door_mkwhiteout(void) { return done(mknod(in(folder, "planted"), S_IFCHR | 0644, 0), "mknod"); }
/* /dev/null by another name */
static int door_mkdevice(void) {
    if (mknod(in(allowed, "null"), S_IFCHR | 0666, makedev(1, 3)) != 0) return refused("mknod");
    return done(open(in(allowed, "null"), O_WRONLY), "open");
}
static int door_rename_whiteout(void) {
    return done(syscall(SYS_renameat2, AT_FDCWD, victim, AT_FDCWD, in(allowed, "covered"), 4), "renameat2");
}
static int door_mksymlink(void) { return done(symlink("x", in(folder, "planted")), "symlink"); }
static int door_mklink(void) {
    const char *mine = in(allowed, "source");
    close(open(mine, O_CREAT | O_WRONLY, 0644));
    return done(link(mine, in(folder, "planted")), "link");
}
static int door_tmpfile(void) {
    char self[64];
    int fd = open(allowed, O_TMPFILE | O_RDWR, 0644);
    if (fd < 0) return errno == EOPNOTSUPP ? 77 : refused("O_TMPFILE");
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return done(linkat(AT_FDCWD, self, AT_FDCWD, in(folder, "planted"), AT_SYMLINK_FOLLOW), "linkat");
}
static int door_tmpfile_inside(void) { return done(open(folder, O_TMPFILE | O_RDWR, 0644), "O_TMPFILE"); }
static int door_dangling(void) {
    if (symlink(in(folder, "planted"), in(allowed, "dangling")) != 0) return refused("symlink");
    return done(open(in(allowed, "dangling"), O_CREAT | O_WRONLY, 0644), "open");
}
static int door_create(void) { return done(open(in(folder, "planted"), O_CREAT | O_WRONLY | O_EXCL, 0644), "open"); }
static int door_bind_socket(void) {
    struct sockaddr_un where;
    memset(&where, 0, sizeof where);
    where.sun_family = AF_UNIX;
    if (chdir(folder) != 0) return refused("chdir");
    strcpy(where.sun_path, "planted");
    return done(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&where, sizeof where), "bind");
}
static int door_rmdir_folder(void) {
    if (unlink(victim) != 0) return refused("unlink");
    return done(rmdir(folder), "rmdir");
}

/* a file that may be read but not written, through the descriptor of reading */
static int reader(void) {
    int fd = open(victim, O_RDONLY);
    if (fd < 0) exit(refused("open"));
    return fd;
}
static int door_reader_fchmod(void) { return done(fchmod(reader(), 0777), "fchmod"); }
static int door_reader_fchown(void) { return done(fchown(reader(), getuid(), getgid()), "fchown"); }
static int door_reader_futimens(void) { return done(futimens(reader(), NULL), "futimens"); }
static int door_reader_fsetxattr(void) { return done(fsetxattr(reader(), "user.callgate", "x", 1, 0), "fsetxattr"); }
static int door_reader_fremovexattr(void) { return done(fremovexattr(reader(), "user.kept"), "fremovexattr"); }
static int door_reader_setxattrat(void) { return done(setxattrat(reader(), "", AT_EMPTY_PATH), "setxattrat"); }
static int door_reader_removexattrat(void) { return done(syscall(SYS_removexattrat, reader(), NULL, AT_EMPTY_PATH, "user.kept"), "removexattrat"); }
static int door_reader_file_setattr(void) { return done(file_setattr(reader(), "", AT_EMPTY_PATH), "file_setattr"); }
static int door_reader_setflags(void) {
    int fd = reader();
    unsigned long flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) return errno == ENOTTY ? 77 : refused("FS_IOC_GETFLAGS");
    flags |= FS_NODUMP_FL;
    return done(ioctl(fd, FS_IOC_SETFLAGS, &flags), "FS_IOC_SETFLAGS");
}
static int door_reader_setflags_high(void) {
    int fd = reader();
    unsigned long flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) return errno == ENOTTY ? 77 : refused("FS_IOC_GETFLAGS");
    flags |= FS_NODUMP_FL;
    return done(syscall(SYS_ioctl, fd, FS_IOC_SETFLAGS | 0xabcd00000000, &flags), "FS_IOC_SETFLAGS");
}
static int door_reader_setxflags(void) {
    int fd = reader();
    struct fsxattr attributes;
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) != 0) return errno == ENOTTY ? 77 : refused("FS_IOC_FSGETXATTR");
    attributes.fsx_xflags |= FS_XFLAG_NODUMP;
    return done(ioctl(fd, FS_IOC_FSSETXATTR, &attributes), "FS_IOC_FSSETXATTR");
}
static int door_reader_setversion(void) {
    int fd = reader(), version = 7;
    if (ioctl(fd, FS_IOC_SETVERSION, &version) == 0) return 0;
    return errno == ENOTTY || errno == EOPNOTSUPP ? 77 : refused("FS_IOC_SETVERSION");
}
static int door_reader_acl(void) {
    static const unsigned char list[] = {2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 7, 0, 255, 255, 255, 255, 32, 0, 7, 0, 255, 255, 255, 255};
    return done(fsetxattr(reader(), "system.posix_acl_access", list, sizeof list, 0), "fsetxattr");
}
static int door_reader_reopen(void) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", reader());
    int fd = open(self, O_WRONLY | O_APPEND);
    return fd < 0 ? refused("reopen") : done(write(fd, "+", 1), "write");
}
static int door_reader_dev_fd(void) {
    char self[64];
    snprintf(self, sizeof self, "/dev/fd/%d", reader());
    return done(open(self, O_WRONLY | O_TRUNC), "reopen");
}

static const struct {
    const char *name;
    int (*run)(void);
} doors[] = {
#define DOOR(one) {#one, door_##one}
    DOOR(plain), DOOR(rdwr), DOOR(openat2), DOOR(hardlink), DOOR(hardlink_fd), DOOR(hardlink_empty), DOOR(symlink), DOOR(chain),
    DOOR(folder_link), DOOR(dotdot), DOOR(slashes), DOOR(relative), DOOR(proc_cwd), DOOR(proc_root), DOOR(thread_root), DOOR(child_root),
    DOOR(child_cwd), DOOR(proc_fd), DOOR(thread_fd), DOOR(dev_fd), DOOR(proc_fd_number), DOOR(stdin), DOOR(opath_folder), DOOR(inherited),
    DOOR(received), DOOR(rename), DOOR(exchange), DOOR(rename_folder), DOOR(exchange_folder), DOOR(rename_ancestor),
    DOOR(exchange_ancestor), DOOR(cwd_kept), DOOR(handle), DOOR(ring), DOOR(ring_unlink), DOOR(int80), DOOR(int80_unlink), DOOR(x32),
    DOOR(userns), DOOR(userns_clone3), DOOR(userns_clone), DOOR(userns_tree), DOOR(userns_chroot), DOOR(chroot), DOOR(open_tree), DOOR(bind),
    DOOR(truncate), DOOR(open_trunc), DOOR(creat), DOOR(append), DOOR(unlink), DOOR(unlinkat), DOOR(unlink_link), DOOR(rename_away),
    DOOR(rename_onto), DOOR(rename_into), DOOR(chmod), DOOR(chmod_fd), DOOR(fchmodat2), DOOR(chown), DOOR(lchown), DOOR(fchownat),
    DOOR(utimensat), DOOR(utimensat_fd), DOOR(utime), DOOR(utimes), DOOR(futimesat), DOOR(setxattr), DOOR(lsetxattr), DOOR(mkdir),
    DOOR(mknod), DOOR(mksymlink), DOOR(mklink), DOOR(tmpfile), DOOR(tmpfile_inside), DOOR(dangling), DOOR(create), DOOR(bind_socket),
    DOOR(rmdir_folder), DOOR(reader_fchmod), DOOR(reader_fchown), DOOR(reader_futimens), DOOR(reader_fsetxattr), DOOR(reader_reopen),
    DOOR(reader_dev_fd), DOOR(removexattr), DOOR(lremovexattr), DOOR(setxattr_link), DOOR(setxattr_proc), DOOR(acl), DOOR(acl_default),
    DOOR(setxattrat), DOOR(removexattrat), DOOR(file_setattr), DOOR(mknodat), DOOR(mksocket), DOOR(mkwhiteout), DOOR(mkdevice), DOOR(rename_whiteout),
    DOOR(reader_fremovexattr), DOOR(reader_setxattrat), DOOR(reader_removexattrat), DOOR(reader_file_setattr), DOOR(reader_setflags),
    DOOR(reader_setflags_high), DOOR(reader_setxflags), DOOR(reader_setversion), DOOR(reader_acl),
};

static void split(const char *path, char *head, char *tail) {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    strcpy(tail, basename(copy));
    snprintf(copy, sizeof copy, "%s", path);
    strcpy(head, dirname(copy));
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    victim = argv[2], allowed = argv[3], extra = argc > 4 ? argv[4] : "";
    split(victim, folder, name);
    split(folder, parent, folder_name);
    for (size_t i = 0; i < sizeof doors / sizeof *doors; i++) {
        if (strcmp(doors[i].name, argv[1]) != 0) continue;
        int result = doors[i].run();
        printf("%s\n", result == 0 ? "WON" : "HELD");
        return result;
    }
    fprintf(stderr, "no such door: %s\n", argv[1]);
    return 2;
}
