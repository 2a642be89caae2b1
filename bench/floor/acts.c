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

/* The directory of an absolute path, pinned; the last name in `leaf`. The descriptor, or -errno. */
static int pin_parent(char *path, const char **leaf) {
    char *slash = strrchr(path, '/');
    *slash = 0;
    *leaf = slash + 1;
    int pin = open(*path ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return pin < 0 ? -errno : pin;
}

/* Pins and reopens; the descriptor, or -errno. */
static int open_on_behalf(char *path, int flags, mode_t mode) {
    char name[32];
    const char *leaf;
    int fd, pin = flags & O_CREAT ? pin_parent(path, &leaf) : open(path, O_PATH | O_CLOEXEC);
    if (pin < 0) return flags & O_CREAT ? pin : -errno;
    if (flags & O_CREAT) {
        fd = openat(pin, leaf, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode);
    } else {
        snprintf(name, sizeof name, "/proc/self/fd/%d", pin);
        fd = open(name, flags | O_CLOEXEC | O_NOCTTY);
    }
    int error = errno;
    close(pin);
    return fd < 0 ? -error : fd;
}

/* Only absolute paths: others are continued. */
static int answer_open(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    char path[PATH_SIZE];
    int flags = (int)call->data.args[2];
    if ((flags & O_PATH) || read_path(call, call->data.args[1], path) != 0 || path[0] != '/')
        return let_continue(listener, call, response);
    int fd = open_on_behalf(path, flags, (mode_t)call->data.args[3]);
    if (fd < 0) {
        response->error = fd;
        return 0;
    }
    struct seccomp_notif_addfd add = {.id = call->id, .srcfd = (uint32_t)fd,
                                      .newfd_flags = (uint32_t)(flags & O_CLOEXEC)};
    int remote = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    if (remote < 0) response->error = -errno;
    else response->val = remote;
    close(fd);
    return 0;
}

/* mkdirat, unlinkat and renameat by absolute paths: in pinned parents. */
static int answer_change(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    char path[PATH_SIZE], second[PATH_SIZE];
    const char *leaf, *second_leaf;
    int renames = call->data.nr == SYS_renameat, second_pin = -1;
    if (read_path(call, call->data.args[1], path) != 0 || path[0] != '/') return let_continue(listener, call, response);
    if (renames && (read_path(call, call->data.args[3], second) != 0 || second[0] != '/'))
        return let_continue(listener, call, response);
    int done = -1, pin = pin_parent(path, &leaf);
    if (renames) second_pin = pin_parent(second, &second_leaf);
    if (renames) done = renameat(pin, leaf, second_pin, second_leaf);
    else if (call->data.nr == SYS_mkdirat) done = mkdirat(pin, leaf, (mode_t)call->data.args[2]);
    else done = unlinkat(pin, leaf, (int)call->data.args[2]);
    if (done != 0) response->error = -errno;
    if (pin >= 0) close(pin);
    if (second_pin >= 0) close(second_pin);
    return 0;
}

/* The caller's descriptor. The pidfd of the last caller is kept: a lookup for each call would be a cost that nobody
 * has to pay. */
static int take_descriptor(const struct seccomp_notif *call) {
    static pid_t last;
    static int pidfd = -1;
    if ((pid_t)call->pid != last || pidfd < 0) {
        if (pidfd >= 0) close(pidfd);
        pidfd = (int)syscall(SYS_pidfd_open, (pid_t)call->pid, 0);
        last = (pid_t)call->pid;
    }
    return (int)syscall(SYS_pidfd_getfd, pidfd, (int)call->data.args[0], 0);
}

static int answer_connect(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    (void)listener;
    struct sockaddr_storage address;
    size_t size = call->data.args[2] <= sizeof address ? (size_t)call->data.args[2] : sizeof address;
    int fd = take_descriptor(call);
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
    int fd = take_descriptor(call);
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
    int fd = take_descriptor(call), sent = sendmmsg(fd, message, (unsigned)count, MSG_NOSIGNAL);
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

const struct mode *find_mode(const char *name) {
    static const struct mode modes[] = {{"continue-open", SYS_openat, let_continue},
                                        {"open", SYS_openat, answer_open},
                                        {"rename", SYS_renameat, answer_change},
                                        {"unlink", SYS_unlinkat, answer_change},
                                        {"mkdir", SYS_mkdirat, answer_change},
                                        {"continue-connect", SYS_connect, let_continue},
                                        {"connect", SYS_connect, answer_connect},
                                        {"sendto", SYS_sendto, answer_sendto},
                                        {"sendmmsg", SYS_sendmmsg, answer_sendmmsg},
                                        {"execve", SYS_execve, answer_execve}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i].name, name) == 0) return &modes[i];
    return NULL;
}
