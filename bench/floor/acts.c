#define _GNU_SOURCE
#include "acts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, PAGE = 4096, MESSAGES = 64, MESSAGE_SIZE = 2048 };

static int let_continue(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    (void)listener, (void)call;
    response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    return 0;
}

/* Up to `size` bytes of the caller's memory; reads stop at an unmapped page by themselves. */
static ssize_t read_memory(const struct seccomp_notif *call, uint64_t address, void *buffer, size_t size) {
    struct iovec here = {buffer, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_readv((pid_t)call->pid, &here, 1, &there, 1, 0);
}

/* Paths are read up to the end of their page first, as most of them end there. */
static int read_path(const struct seccomp_notif *call, uint64_t address, char *path) {
    size_t got = 0;
    while (got < PATH_SIZE) {
        size_t chunk = PAGE - (size_t)((address + got) % PAGE);
        if (chunk > 256 && got == 0) chunk = 256;
        if (chunk > PATH_SIZE - got) chunk = PATH_SIZE - got;
        ssize_t n = read_memory(call, address + got, path + got, chunk);
        if (n <= 0) return -1;
        if (memchr(path + got, 0, (size_t)n) != NULL) return 0;
        got += (size_t)n;
    }
    return -1;
}

/* A descriptor of the caller. The pidfd of the last caller is kept: a lookup for each call would be a cost that nobody
 * has to pay. */
static int take_descriptor(const struct seccomp_notif *call, uint64_t descriptor) {
    static pid_t last;
    static int pidfd = -1;
    if ((pid_t)call->pid != last || pidfd < 0) {
        if (pidfd >= 0) close(pidfd);
        pidfd = (int)syscall(SYS_pidfd_open, (pid_t)call->pid, 0);
        last = (pid_t)call->pid;
    }
    return (int)syscall(SYS_pidfd_getfd, pidfd, (int)descriptor, 0);
}

/* Where a path begins, and the path: to be closed unless it is AT_FDCWD, which stands for an absolute path. */
struct path {
    char text[PATH_SIZE];
    int base;
};

static int copy_path(const struct seccomp_notif *call, int directory, uint64_t address, struct path *path) {
    char name[32];
    path->base = AT_FDCWD;
    if (read_path(call, address, path->text) != 0) return -1;
    if (path->text[0] == '/') return 0;
    snprintf(name, sizeof name, "/proc/%d/cwd", (int)call->pid);
    path->base = directory == AT_FDCWD ? open(name, O_PATH | O_DIRECTORY | O_CLOEXEC)
                                       : take_descriptor(call, (uint64_t)directory);
    return path->base < 0 ? -1 : 0;
}

static void drop(int descriptor) {
    if (descriptor >= 0) close(descriptor);
}

/* The directory of a path, pinned; the last name in `leaf`. The descriptor, or -1 with errno. */
static int pin_parent(struct path *path, const char **leaf) {
    char *end = path->text + strlen(path->text), *slash;
    while (end > path->text + 1 && end[-1] == '/') *--end = 0;
    slash = strrchr(path->text, '/');
    *leaf = slash == NULL ? path->text : slash + 1;
    if (slash != NULL) *slash = 0;
    const char *parent = slash == NULL ? "." : slash == path->text ? "/" : path->text;
    return openat(path->base, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Pins and reopens; the descriptor, or -1 with errno. */
static int open_on_behalf(struct path *path, int flags, mode_t mode) {
    char name[32];
    const char *leaf;
    int fd = -1;
    int pin = flags & O_CREAT ? pin_parent(path, &leaf)
                              : openat(path->base, path->text, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW));
    if (pin < 0) return -1;
    if (flags & O_CREAT) {
        fd = openat(pin, leaf, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode);
    } else {
        snprintf(name, sizeof name, "/proc/self/fd/%d", pin);
        fd = open(name, (flags & ~O_NOFOLLOW) | O_CLOEXEC | O_NOCTTY);
    }
    int error = errno;
    close(pin);
    errno = error;
    return fd;
}

/* What leads to the caller itself is continued. */
static int answer_open(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    struct path path;
    int flags = (int)call->data.args[2];
    if ((flags & O_PATH) || copy_path(call, (int)call->data.args[0], call->data.args[1], &path) != 0 ||
        strncmp(path.text, "/proc/", 6) == 0 || strncmp(path.text, "/dev/", 5) == 0)
        return let_continue(listener, call, response);
    int fd = open_on_behalf(&path, flags, (mode_t)call->data.args[3]);
    if (fd < 0) response->error = -errno;
    drop(path.base);
    if (fd < 0) return 0;
    struct seccomp_notif_addfd add = {.id = call->id, .srcfd = (uint32_t)fd,
                                      .newfd_flags = (uint32_t)(flags & O_CLOEXEC)};
    int remote = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    if (remote < 0) response->error = -errno;
    else response->val = remote;
    close(fd);
    return 0;
}

/* The one rule that the floor knows: names that end in .qkey are not opened. */
static int deny_open(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    char path[PATH_SIZE];
    size_t length = read_path(call, call->data.args[1], path) == 0 ? strlen(path) : 0;
    if (length < 5 || strcmp(path + length - 5, ".qkey") != 0) return let_continue(listener, call, response);
    response->error = -EACCES;
    return 0;
}

/* The arguments as those of the call that takes a directory. */
struct change {
    uint32_t call;
    int directory;
    uint64_t arguments[4];
};

static struct change as_of_a_directory(const struct seccomp_data *data) {
    const __u64 *given = data->args;
    struct change plain = {(uint32_t)data->nr, AT_FDCWD, {given[0], given[1], 0, 0}};
    switch (data->nr) {
#if defined(__x86_64__)
    case SYS_mkdir: plain.call = SYS_mkdirat; return plain;
    case SYS_chmod: plain.call = SYS_fchmodat; return plain;
    case SYS_unlink: plain.call = SYS_unlinkat; plain.arguments[1] = 0; return plain;
    case SYS_rmdir: plain.call = SYS_unlinkat; plain.arguments[1] = AT_REMOVEDIR; return plain;
    case SYS_rename:
        plain.call = SYS_renameat2;
        plain.arguments[1] = (uint64_t)AT_FDCWD;
        plain.arguments[2] = given[1];
        return plain;
#endif
    default:
        return (struct change){(uint32_t)data->nr, (int)given[0],
                               {given[1], given[2], given[3], data->nr == SYS_renameat2 ? given[4] : 0}};
    }
}

static int perform(const struct change *change, int pin, const char *leaf, int second_pin, const char *second_leaf) {
    switch (change->call) {
    case SYS_mkdirat: return mkdirat(pin, leaf, (mode_t)change->arguments[1]);
    case SYS_unlinkat: return unlinkat(pin, leaf, (int)change->arguments[1]);
    case SYS_fchmodat: return fchmodat(pin, leaf, (mode_t)change->arguments[1], 0);
    default: return (int)syscall(SYS_renameat2, pin, leaf, second_pin, second_leaf, change->arguments[3]);
    }
}

/* Changes by path: in pinned parents. */
static int answer_change(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    struct change change = as_of_a_directory(&call->data);
    struct path path = {.base = -1}, second = {.base = -1};
    const char *leaf, *second_leaf = NULL;
    int renames = change.call == SYS_renameat || change.call == SYS_renameat2, second_pin = -1;
    if (copy_path(call, change.directory, change.arguments[0], &path) != 0 ||
        (renames && copy_path(call, (int)change.arguments[1], change.arguments[2], &second) != 0)) {
        drop(path.base);
        return let_continue(listener, call, response);
    }
    int pin = pin_parent(&path, &leaf);
    if (renames) second_pin = pin_parent(&second, &second_leaf);
    if (perform(&change, pin, leaf, second_pin, second_leaf) != 0) response->error = -errno;
    drop(pin);
    drop(second_pin);
    drop(path.base);
    drop(second.base);
    return 0;
}

/* Changes by descriptor. */
static int answer_descriptor(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    struct timespec times[2];
    const __u64 *given = call->data.args;
    if (call->data.nr == SYS_utimensat &&
        (given[1] != 0 || (given[2] != 0 && read_memory(call, given[2], times, sizeof times) != sizeof times)))
        return let_continue(listener, call, response);
    int fd = take_descriptor(call, given[0]);
    int done = call->data.nr == SYS_fchmod ? fchmod(fd, (mode_t)given[1]) : futimens(fd, given[2] ? times : NULL);
    if (done != 0) response->error = -errno;
    drop(fd);
    return 0;
}

static int answer_file_call(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    switch (call->data.nr) {
    case SYS_openat: return answer_open(listener, call, response);
    case SYS_fchmod:
    case SYS_utimensat: return answer_descriptor(listener, call, response);
    default: return answer_change(listener, call, response);
    }
}

static int answer_connect(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    (void)listener;
    struct sockaddr_storage address;
    size_t size = call->data.args[2] <= sizeof address ? (size_t)call->data.args[2] : sizeof address;
    int fd = take_descriptor(call, call->data.args[0]);
    if (fd < 0 || read_memory(call, call->data.args[1], &address, size) != (ssize_t)size) {
        response->error = fd < 0 ? -EBADF : -EFAULT;
    } else if (connect(fd, (struct sockaddr *)&address, (socklen_t)size) != 0) {
        response->error = -errno;
    }
    if (fd >= 0) close(fd);
    return 0;
}

/* Address and payload are read in one go; a longer payload is cut. */
static int answer_sendto(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    (void)listener;
    struct sockaddr_storage address;
    char payload[MESSAGE_SIZE];
    size_t size = call->data.args[2] < sizeof payload ? (size_t)call->data.args[2] : sizeof payload;
    size_t name_size = call->data.args[5] < sizeof address ? (size_t)call->data.args[5] : sizeof address;
    struct iovec here[2] = {{payload, size}, {&address, name_size}};
    struct iovec there[2] = {{(void *)(uintptr_t)call->data.args[1], size},
                             {(void *)(uintptr_t)call->data.args[4], name_size}};
    int fd = take_descriptor(call, call->data.args[0]);
    ssize_t sent = -1;
    if (process_vm_readv((pid_t)call->pid, here, 2, there, 2, 0) != (ssize_t)(size + name_size)) errno = EFAULT;
    else sent = sendto(fd, payload, size, MSG_NOSIGNAL, (struct sockaddr *)&address, (socklen_t)name_size);
    if (sent < 0) response->error = -errno;
    else response->val = sent;
    if (fd >= 0) close(fd);
    return 0;
}

/* 64 messages of one part each, and no control data: one read for the vector, one for the parts' places, one for
 * addresses and payloads, one write for the lengths. */
static int answer_sendmmsg(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    (void)listener;
    static char payload[MESSAGES][MESSAGE_SIZE];
    struct sockaddr_storage address[MESSAGES];
    struct mmsghdr message[MESSAGES];
    struct iovec part[MESSAGES], here[2 * MESSAGES], there[2 * MESSAGES];
    size_t count = call->data.args[2] < MESSAGES ? (size_t)call->data.args[2] : MESSAGES;
    if (read_memory(call, call->data.args[1], message, count * sizeof *message) < 0) goto fault;
    for (size_t i = 0; i < count; i++) {
        here[i] = (struct iovec){&part[i], sizeof *part};
        there[i] = (struct iovec){message[i].msg_hdr.msg_iov, sizeof *part};
    }
    if (process_vm_readv((pid_t)call->pid, here, count, there, count, 0) < 0) goto fault;
    for (size_t i = 0; i < count; i++) {
        struct msghdr *header = &message[i].msg_hdr;
        if (part[i].iov_len > MESSAGE_SIZE || header->msg_namelen > sizeof *address) goto fault;
        there[2 * i] = part[i];
        there[2 * i + 1] = (struct iovec){header->msg_name, header->msg_namelen};
        part[i].iov_base = payload[i];
        here[2 * i] = part[i];
        here[2 * i + 1] = (struct iovec){&address[i], header->msg_namelen};
        *header = (struct msghdr){
            .msg_name = &address[i], .msg_namelen = header->msg_namelen, .msg_iov = &part[i], .msg_iovlen = 1};
    }
    if (process_vm_readv((pid_t)call->pid, here, 2 * count, there, 2 * count, 0) < 0) goto fault;
    int fd = take_descriptor(call, call->data.args[0]), sent = sendmmsg(fd, message, (unsigned)count, MSG_NOSIGNAL);
    if (sent < 0) response->error = -errno;
    else response->val = sent;
    for (int i = 0; i < sent; i++) {
        here[i] = (struct iovec){&message[i].msg_len, sizeof message->msg_len};
        there[i] = (struct iovec){&((struct mmsghdr *)(uintptr_t)call->data.args[1])[i].msg_len, sizeof message->msg_len};
    }
    if (sent > 0) process_vm_writev((pid_t)call->pid, here, (unsigned long)sent, there, (unsigned long)sent, 0);
    if (fd >= 0) close(fd);
    return 0;
fault:
    response->error = -EFAULT;
    return 0;
}

/* Continued, and held once more before the new program's first instruction. */
static int answer_execve(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    pid_t caller = (pid_t)call->pid;
    char path[PATH_SIZE], name[32], program[PATH_SIZE];
    int status;
    response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (read_path(call, call->data.args[0], path) != 0 ||
        ptrace(PTRACE_SEIZE, caller, 0, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0)
        return 0;
    ptrace(PTRACE_INTERRUPT, caller, 0, 0);
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, response);
    if (waitpid(caller, &status, __WALL) == caller && WIFSTOPPED(status)) {
        snprintf(name, sizeof name, "/proc/%d/exe", (int)caller);
        if (readlink(name, program, sizeof program) < 0) perror("floor: readlink");
        ptrace(PTRACE_DETACH, caller, 0, 0);
    }
    return 1;
}

#if defined(__x86_64__)
#define WITHOUT_DIRECTORY SYS_mkdir, SYS_unlink, SYS_rmdir, SYS_rename, SYS_chmod,
#else
#define WITHOUT_DIRECTORY
#endif

const struct mode *find_mode(const char *name) {
    static const struct mode modes[] = {
        {"continue-open", let_continue, {SYS_openat}},
        {"deny-open", deny_open, {SYS_openat}},
        {"files", answer_file_call,
         {WITHOUT_DIRECTORY SYS_openat, SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_fchmodat, SYS_fchmod,
          SYS_utimensat}},
        {"continue-connect", let_continue, {SYS_connect}},
        {"connect", answer_connect, {SYS_connect}},
        {"sendto", answer_sendto, {SYS_sendto}},
        {"sendmmsg", answer_sendmmsg, {SYS_sendmmsg}},
        {"execve", answer_execve, {SYS_execve}}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i].name, name) == 0) return &modes[i];
    return NULL;
}
