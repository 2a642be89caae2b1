/* The physical limit: a responder that does nothing but answer.
 *
 *   floor continue-open|open|continue-connect|connect COMMAND [ARG...]
 *
 * Arms COMMAND with a filter that traps openat (or connect) and answers each notification in the cheapest way that is
 * still correct: blocking receive, SYNC_WAKE_UP where the kernel has it, no rules, no record, no check that the caller
 * still lives, no umask. callgate is measured against it (bench/run.py), so that what is ours is seen apart from what
 * the kernel costs. Not for use: it allows everything, and trusts the command.
 *
 *   continue-*  the kernel performs the call itself
 *   open        read the path, pin the object (for O_CREAT: the parent), reopen, add-fd, close, answer: in this order,
 *               because the answer must not overtake the close (a writer's exec would see ETXTBSY)
 *   connect     read the address, take the socket with pidfd_getfd, connect it here
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "not one of the architectures that the project runs on"
#endif

static void die(const char *what) {
    perror(what);
    exit(125);
}

static int install(uint32_t call) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("floor: PR_SET_NO_NEW_PRIVS");
    long listener =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
    if (listener < 0) die("floor: seccomp");
    return (int)listener;
}

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
};

static void hand_over(int channel, int fd) {
    char byte = 0;
    union control control = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(channel, &message, MSG_NOSIGNAL) != 1) die("floor: sendmsg");
}

static int take_over(int channel) {
    char byte;
    union control control = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1) die("floor: recvmsg");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL) die("floor: no listener came");
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* Up to `size` bytes of the caller's memory; reads stop at an unmapped page by themselves. */
static ssize_t read_memory(const struct seccomp_notif *call, uint64_t address, void *buffer, size_t size) {
    struct iovec here = {buffer, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_readv((pid_t)call->pid, &here, 1, &there, 1, 0);
}

/* Paths are read up to the end of their page first, as most of them end there. */
static int read_path(const struct seccomp_notif *call, uint64_t address, char *path, size_t size) {
    size_t got = 0;
    while (got < size) {
        size_t chunk = 4096 - (size_t)((address + got) % 4096);
        if (chunk > 256 && got == 0) chunk = 256;
        if (chunk > size - got) chunk = size - got;
        ssize_t n = read_memory(call, address + got, path + got, chunk);
        if (n <= 0) return -1;
        if (memchr(path + got, 0, (size_t)n) != NULL) return 0;
        got += (size_t)n;
    }
    return -1;
}

/* Pins and reopens; the descriptor, or -errno. Only absolute paths: others are continued. */
static int open_on_behalf(char *path, int flags, mode_t mode) {
    char name[32];
    int pin, fd;
    if (flags & O_CREAT) {
        char *leaf = strrchr(path, '/');
        *leaf++ = 0;
        pin = open(*path ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (pin < 0) return -errno;
        fd = openat(pin, leaf, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode);
    } else {
        pin = open(path, O_PATH | O_CLOEXEC);
        if (pin < 0) return -errno;
        snprintf(name, sizeof name, "/proc/self/fd/%d", pin);
        fd = open(name, flags | O_CLOEXEC | O_NOCTTY);
    }
    int error = errno;
    close(pin);
    return fd < 0 ? -error : fd;
}

static void answer_open(int listener, const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    char path[4096];
    int flags = (int)call->data.args[2];
    if ((flags & O_PATH) || read_path(call, call->data.args[1], path, sizeof path) != 0 || path[0] != '/') {
        response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        return;
    }
    int fd = open_on_behalf(path, flags, (mode_t)call->data.args[3]);
    if (fd < 0) {
        response->error = fd;
        return;
    }
    struct seccomp_notif_addfd add = {.id = call->id, .srcfd = (uint32_t)fd,
                                      .newfd_flags = (uint32_t)(flags & O_CLOEXEC)};
    int remote = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    if (remote < 0) response->error = -errno;
    else response->val = remote;
    close(fd);
}

/* The pidfd of the last caller is kept: a lookup for each call would be a cost that nobody has to pay. */
static int pidfd_of(pid_t pid) {
    static pid_t last;
    static int fd = -1;
    if (pid == last && fd >= 0) return fd;
    if (fd >= 0) close(fd);
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    last = pid;
    return fd;
}

static void answer_connect(const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    struct sockaddr_storage address;
    size_t size = call->data.args[2] <= sizeof address ? (size_t)call->data.args[2] : sizeof address;
    int fd = (int)syscall(SYS_pidfd_getfd, pidfd_of((pid_t)call->pid), (int)call->data.args[0], 0);
    if (fd < 0 || read_memory(call, call->data.args[1], &address, size) != (ssize_t)size) {
        response->error = fd < 0 ? -EBADF : -EFAULT;
    } else if (connect(fd, (struct sockaddr *)&address, (socklen_t)size) != 0) {
        response->error = -errno;
    }
    if (fd >= 0) close(fd);
}

enum mode { CONTINUED, OPEN, CONNECT };

static void answer_all(int listener, enum mode mode) {
    /* Older kernels lack the flag (before 6.6); the floor is then what they can do. */
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    for (;;) {
        struct seccomp_notif call = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
            if (errno == EINTR) continue;
            return; /* ENOENT: nobody is left */
        }
        struct seccomp_notif_resp response = {.id = call.id};
        if (mode == OPEN) answer_open(listener, &call, &response);
        else if (mode == CONNECT) answer_connect(&call, &response);
        else response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    }
}

int main(int argc, char **argv) {
    static const struct { const char *name; enum mode mode; uint32_t call; } modes[] = {
        {"continue-open", CONTINUED, SYS_openat}, {"open", OPEN, SYS_openat},
        {"continue-connect", CONTINUED, SYS_connect}, {"connect", CONNECT, SYS_connect}};
    size_t chosen = 0;
    while (argc > 2 && chosen < 4 && strcmp(argv[1], modes[chosen].name) != 0) chosen++;
    if (argc < 3 || chosen == 4) {
        fputs("usage: floor continue-open|open|continue-connect|connect COMMAND [ARG...]\n", stderr);
        return 125;
    }
    int channel[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) die("floor: socketpair");
    pid_t child = fork();
    if (child < 0) die("floor: fork");
    if (child == 0) {
        int listener = install(modes[chosen].call);
        hand_over(channel[1], listener);
        close(listener);
        execvp(argv[2], argv + 2);
        die("floor: exec");
    }
    close(channel[1]);
    int listener = take_over(channel[0]);
    answer_all(listener, modes[chosen].mode);
    int status;
    if (waitpid(child, &status, 0) != child) die("floor: waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
