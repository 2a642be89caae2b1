/* Reading a denied file by an unusual way of naming it (door.h). */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "door.h"

MODE(plain) { return show_path(victim); }
/* as another user than the one who started the run */
MODE(other_user) {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) return refused("setresuid");
    return show_path(victim);
}
MODE(rdwr) { return show(open(victim, O_RDWR), "rdwr"); }
MODE(openat2) {
    struct open_how how = {O_RDONLY, 0, 0};
    return show(syscall(SYS_openat2, AT_FDCWD, victim, &how, sizeof how), "openat2");
}
/* Linux 7.2: the descriptor's own object, opened anew */
#define EMPTY_PATH (1 << 26)
MODE(empty_path) {
    int fd = openat(open(victim, O_PATH | O_CLOEXEC), "", O_RDONLY | EMPTY_PATH);
    return fd < 0 && errno == ENOENT ? UNSUPPORTED : show(fd, "empty path");
}
MODE(empty_path_openat2) {
    struct open_how how = {O_RDONLY | EMPTY_PATH, 0, 0};
    int fd = (int)syscall(SYS_openat2, open(victim, O_PATH | O_CLOEXEC), "", &how, sizeof how);
    return fd < 0 && (errno == EINVAL || errno == ENOENT) ? UNSUPPORTED : show(fd, "empty path");
}
MODE(symlink) {
    if (symlink(victim, in(allowed, "soft")) != 0) return refused("symlink");
    return show_path(in(allowed, "soft"));
}
MODE(chain) {
    const char *target = victim;
    for (int i = 0; i < 38; i++) {
        const char *link_name = text("chain%d", i);
        if (symlink(target, in(allowed, link_name)) != 0) return refused("symlink");
        target = link_name;
    }
    return show_path(in(allowed, target));
}
MODE(folder_link) {
    if (symlink(folder, in(allowed, "folder")) != 0) return refused("symlink");
    return show_path(in(allowed, in("folder", name)));
}
MODE(dotdot) { return show_path(text("%s/./../%s/.//%s", folder, folder_name, name)); }
MODE(slashes) { return show_path(text("//%s//.//%s", folder, name)); }
MODE(relative) {
    if (chdir(folder) != 0) return refused("chdir");
    return show_path(name);
}
MODE(proc_cwd) {
    if (chdir(folder) != 0) return refused("chdir");
    return show_path(in("/proc/self/cwd", name));
}
MODE(proc_root) { return show_path(text("/proc/self/root%s", victim)); }
MODE(thread_root) { return show_path(text("/proc/thread-self/root%s", victim)); }
MODE(child_root) {
    pid_t child = fork();
    if (child < 0) return refused("fork"); /* to kill(2), -1 is everybody */
    if (child == 0) {
        pause();
        _exit(0);
    }
    int result = show_path(text("/proc/%d/root%s", child, victim));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return result;
}
MODE(child_cwd) {
    int ready[2];
    char byte;
    if (pipe(ready) != 0) return refused("pipe");
    pid_t child = fork();
    if (child < 0) return refused("fork");
    if (child == 0) {
        if (chdir(folder) == 0 && write(ready[1], "x", 1) == 1) pause();
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1) return refused("child");
    int result = show_path(text("/proc/%d/cwd/%s", child, name));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return result;
}
static int opened(void) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    if (fd < 0) exit(refused("O_PATH"));
    return fd;
}
MODE(proc_fd) { return show_path(text("/proc/self/fd/%d", opened())); }
MODE(thread_fd) { return show_path(text("/proc/thread-self/fd/%d", opened())); }
MODE(dev_fd) { return show_path(text("/dev/fd/%d", opened())); }
MODE(proc_fd_number) { return show_path(text("/proc/%d/fd/%d", getpid(), opened())); }
MODE(stdin) {
    int fd = open(victim, O_PATH | O_CLOEXEC);
    if (fd < 0 || dup2(fd, 0) < 0) return refused("dup2");
    return show_path("/dev/stdin");
}
MODE(opath_folder) {
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return refused("O_PATH");
    return show(openat(fd, name, O_RDONLY | O_CLOEXEC), "openat");
}
MODE(inherited) { return show(openat(atoi(extra), name, O_RDONLY | O_CLOEXEC), "inherited"); }
static int receive(void) {
    struct sockaddr_un where;
    memset(&where, 0, sizeof where);
    where.sun_family = AF_UNIX;
    snprintf(where.sun_path, sizeof where.sun_path, "%s", extra);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&where, sizeof where) != 0) exit(refused("connect"));
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {NULL, 0, &data, 1, control, sizeof control, 0};
    if (recvmsg(fd, &message, 0) < 1) exit(refused("recvmsg"));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL) exit(refused("no descriptor"));
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}
MODE(received) { return show(openat(receive(), name, O_RDONLY | O_CLOEXEC), "received"); }
MODE(received_open) { return show(receive(), "received"); }
MODE(received_file) { return show_path(text("/proc/self/fd/%d", receive())); }

/* ---- the path in memory: its length, its bytes, where it ends ---- */

MODE(longest) { /* PATH_MAX with its zero: no longer path is one */
    char path[4096];
    size_t length = strlen(victim);
    memset(path, '/', sizeof path);
    memcpy(path + sizeof path - 1 - length, victim, length + 1);
    return show_path(path);
}
MODE(too_long) { /* by a name that is longer than any path: a part at a time */
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char step[4096];
    memset(step, '/', sizeof step);
    step[sizeof step - 1] = 0;
    step[0] = '.';
    for (int i = 0; i < 4 && fd >= 0; i++) fd = openat(fd, step, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return refused("steps");
    return show(openat(fd, victim + 1, O_RDONLY | O_CLOEXEC), "openat");
}
/* `text` so that its last byte is the last one of a page and nothing is mapped behind */
static const char *at_page_end(const char *text) {
    long page = sysconf(_SC_PAGESIZE);
    char *area = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) exit(refused("mmap"));
    munmap(area + page, (size_t)page);
    char *at = area + page - strlen(text) - 1;
    strcpy(at, text);
    return at;
}
MODE(page_end) { return show(syscall(SYS_openat, AT_FDCWD, at_page_end(victim), O_RDONLY), "page end"); }
MODE(read_only_page) { /* only readable, and shared with a file */
    int fd = memfd_create("path", 0);
    if (fd < 0 || write(fd, victim, strlen(victim) + 1) < 0) return refused("memfd");
    const char *path = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (path == MAP_FAILED) return refused("mmap");
    return show(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY), "read-only page");
}
MODE(high_bits) {
    return show(syscall(SYS_openat, (long)AT_FDCWD & 0xffffffffL, victim, (long)O_RDONLY | (1L << 40), 1L << 50),
                "high bits");
}
MODE(high_bits_dirfd) {
    long fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return show(syscall(SYS_openat, fd | (1L << 32), name, (long)O_RDONLY | (1L << 33)), "high bits");
}
MODE(creat_flag) { return show(open(victim, O_RDWR | O_CREAT, 0600), "O_CREAT"); }
MODE(nofollow) { return show(open(victim, O_RDONLY | O_NOFOLLOW), "O_NOFOLLOW"); }
MODE(nonblocking) { return show(open(victim, O_RDONLY | O_NONBLOCK | O_NOCTTY), "O_NONBLOCK"); }

/* ---- openat2: scoped look-ups ---- */

static int scoped(uint64_t resolve, int directory, const char *path) {
    struct open_how how = {O_RDONLY, 0, resolve};
    return show(syscall(SYS_openat2, directory, path, &how, sizeof how), path);
}
MODE(in_root) { return scoped(RESOLVE_IN_ROOT, open(parent, O_PATH | O_CLOEXEC), in("/../..", in(folder_name, name))); }
MODE(beneath) { return scoped(RESOLVE_BENEATH, open(parent, O_PATH | O_CLOEXEC), in(folder_name, name)); }
MODE(no_symlinks) { return scoped(RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV, AT_FDCWD, victim); }
MODE(long_how) { /* a struct of a later kernel: the rest is zero */
    struct {
        struct open_how how;
        char rest[64];
    } how = {{O_RDONLY, 0, 0}, {0}};
    return show(syscall(SYS_openat2, AT_FDCWD, victim, &how, sizeof how), "openat2");
}

/* ---- descriptors and working directories ---- */

MODE(list) {
    DIR *all = opendir(folder);
    if (all == NULL) return refused("opendir");
    for (struct dirent *one; (one = readdir(all)) != NULL;) printf("got: %s\n", one->d_name);
    return 0;
}
MODE(list_reopened) { /* an O_PATH descriptor of the directory becomes a readable one */
    int fd = openat(open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    if (all == NULL) return refused("reopen");
    for (struct dirent *one; (one = readdir(all)) != NULL;) printf("got: %s\n", one->d_name);
    return 0;
}
MODE(fd_folder) {
    return show_path(in(text("/proc/self/fd/%d", open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)), name));
}
MODE(dev_fd_folder) { return show_path(in(text("/dev/fd/%d", open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)), name)); }
MODE(fd_up) { /* from an allowed directory's descriptor upwards */
    int fd = open(allowed, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return show_path(text("/proc/self/fd/%d/../../../../../../../..%s", fd, victim));
}
MODE(task_root) { return show_path(text("/proc/%d/task/%d/root%s", getpid(), getpid(), victim)); }
MODE(task_cwd) {
    if (chdir(folder) != 0) return refused("chdir");
    return show_path(text("/proc/self/task/%d/cwd/%s", getpid(), name));
}
MODE(link_to_proc) {
    if (symlink(in("/proc/self/root", victim), in(allowed, "through-proc")) != 0) return refused("symlink");
    return show_path(in(allowed, "through-proc"));
}
MODE(link_to_fd) { /* a link of the file system to a magic one */
    if (symlink(text("/proc/self/fd/%d", open(victim, O_PATH)), in(allowed, "through-fd")) != 0)
        return refused("symlink");
    return show_path(in(allowed, "through-fd"));
}
MODE(deep) { /* further down than any path can say: EXTRA names of 200 bytes */
    char step[201];
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    memset(step, 'd', 200);
    step[200] = 0;
    for (int i = 0; i < atoi(extra) && fd >= 0; i++) fd = openat(fd, step, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fchdir(fd) != 0) return refused("steps");
    return show_path(name);
}

/* A thread with a table of descriptors, or a working directory, of its own. */
static int numbered_fd = -1;
static int thread_result = REFUSED;
static void *with_own_table(void *unused) {
    (void)unused;
    int other = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (unshare(CLONE_FILES) != 0 || dup2(other, numbered_fd) < 0) return NULL;
    thread_result = show(openat(numbered_fd, name, O_RDONLY | O_CLOEXEC), "own table");
    return NULL;
}
static void *with_own_cwd(void *unused) {
    (void)unused;
    if (unshare(CLONE_FS) != 0 || chdir(folder) != 0) return NULL;
    thread_result = show_path(name);
    return NULL;
}
static int in_thread(void *(*what)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, NULL) != 0) return refused("thread");
    pthread_join(thread, NULL);
    return thread_result;
}
MODE(own_table) {
    numbered_fd = open(allowed, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return in_thread(with_own_table);
}
MODE(own_cwd) {
    if (chdir(allowed) != 0) return refused("chdir");
    return in_thread(with_own_cwd);
}
MODE(vfork) {
    pid_t child = vfork();
    if (child == 0) {
        thread_result = show_path(victim);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return thread_result;
}
