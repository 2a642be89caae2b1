/* Reaching a denied file beside the calls that name it: handles, the ring, the entries of other
 * architectures, namespaces and mounts (door.h). Bare, an ordinary user has not all of them.
 */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "door.h"

MODE(handle) {
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
    struct io_uring_sqe *requests =
        mmap(NULL, 4 * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (rings == MAP_FAILED || requests == MAP_FAILED) return -errno;
    requests[0] = *request;
    ((unsigned *)(void *)(rings + params.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(void *)(rings + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) return -errno;
    return ((struct io_uring_cqe *)(void *)(rings + params.cq_off.cqes))[0].res;
}
MODE(ring) {
    struct io_uring_sqe request;
    memset(&request, 0, sizeof request);
    request.opcode = IORING_OP_OPENAT;
    request.fd = AT_FDCWD;
    request.addr = (uintptr_t)victim;
    int fd = ring_call(&request);
    errno = -fd;
    return show(fd, "io_uring openat");
}
MODE(ring_unlink) {
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
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(one), "c"(two), "d"(three)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}
static char *low_copy(const char *text) {
    char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED) exit(UNSUPPORTED);
    strcpy(low, text);
    return low;
}
MODE(int80) {
    long fd = entry32(5, (long)low_copy(victim), O_RDONLY, 0);
    if (fd < 0) errno = (int)-fd;
    return show(fd, "int 0x80 open");
}
MODE(int80_unlink) {
    long result = entry32(10, (long)low_copy(victim), 0, 0);
    if (result < 0) errno = (int)-result;
    return done(result, "int 0x80 unlink");
}
MODE(x32) { return show(syscall(0x40000000 | SYS_open, victim, O_RDONLY), "x32 open"); }
#else
MODE(int80) { return UNSUPPORTED; }
MODE(int80_unlink) { return UNSUPPORTED; }
MODE(x32) { return UNSUPPORTED; }
#endif

/* ---- namespaces and mounts ---- */

static void map_ids(void) {
    unsigned uid = getuid(), gid = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) exit(refused("unshare"));
    int fd = open("/proc/self/setgroups", O_WRONLY);
    if (fd >= 0 && write(fd, "deny", 4) < 0) perror("setgroups");
    close(fd);
    const char *map = text("0 %u 1", uid);
    fd = open("/proc/self/uid_map", O_WRONLY);
    if (fd < 0 || write(fd, map, strlen(map)) < 0) perror("uid_map");
    close(fd);
    map = text("0 %u 1", gid);
    fd = open("/proc/self/gid_map", O_WRONLY);
    if (fd < 0 || write(fd, map, strlen(map)) < 0) perror("gid_map");
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
MODE(userns) {
    map_ids();
    return bind_and_read();
}
/* After a call that makes a process: there it is tried, and its exit status is the mode's. */
static int in_child(long child) {
    if (child == 0) {
        int result = bind_and_read();
        fflush(stdout);
        _exit(result);
    }
    int status;
    waitpid((pid_t)child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
MODE(userns_clone3) {
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.flags = CLONE_NEWUSER | CLONE_NEWNS;
    arguments.exit_signal = SIGCHLD;
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child < 0) return errno == ENOSYS ? 1 : refused("clone3");
    return in_child(child);
}
MODE(userns_clone) {
    long child = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
    if (child < 0) return refused("clone");
    return in_child(child);
}
MODE(userns_tree) {
    map_ids();
    const char *place = in(allowed, "tree-mounted");
    mkdir(place, 0755);
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0) return refused("open_tree");
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) != 0) return refused("move_mount");
    return show_path(in(place, name));
}
MODE(userns_chroot) {
    map_ids();
    if (chroot(folder) != 0) return refused("chroot");
    return show_path(in("", name));
}
MODE(chroot) {
    if (chroot(folder) != 0) return refused("chroot");
    return show_path(in("", name));
}
MODE(open_tree) {
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLOEXEC);
    if (tree < 0) return refused("open_tree");
    return show(openat(tree, name, O_RDONLY), "openat");
}
MODE(bind) {
    if (unshare(CLONE_NEWNS) != 0) return refused("unshare");
    if (mount("", "/", NULL, MS_PRIVATE | MS_REC, NULL) != 0) return refused("private");
    return bind_and_read();
}
