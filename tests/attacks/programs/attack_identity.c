/* A run that keeps capabilities becomes another user, who must then reach no more than that user (door.h).
 *
 * EXTRA is "other": the mode changes its identity before it attacks. Otherwise it stays who it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "door.h"

#define NOBODY 65534

static int become_nobody(void) {
    if (strcmp(extra, "other") != 0) return 0;
    return setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0;
}

/* What only capabilities allow, after they were given up: the ids are the same. */
MODE(no_capabilities) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capset, &header, none) != 0) return refused("capset");
    return show_path(victim);
}

MODE(file_system_user) {
    setfsuid(NOBODY);
    return show_path(victim);
}

/* A signal for a process of the user who started the run. Sent to a group by no number, so that callgate
 * sends it. The child itself says whether it came. */
MODE(signal) {
    int ready[2], go[2];
    char byte = 0;
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    if (setpgid(0, 0) != 0 || pipe(ready) != 0 || pipe(go) != 0) return refused("setpgid");
    pid_t child = fork();
    if (child == 0) {
        sigset_t pending;
        close(go[1]);
        if (write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(2);
        sigpending(&pending);
        _exit(sigismember(&pending, SIGTERM) == 1 ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || read(ready[0], &byte, 1) != 1 || become_nobody() != 0) return refused("setresuid");
    kill(0, SIGTERM);
    if (write(go[1], "g", 1) != 1 || waitpid(child, &status, 0) != child) return refused("waitpid");
    return status == 0 ? 0 : refused("kill");
}

/* Says over a datagram socket that root sends. The receiver sees what the kernel vouches for. */
MODE(forged) {
    const char* place = in(allowed, "receiver");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(place) >= sizeof name.sun_path) return 2;
    strcpy(name.sun_path, place);
    umask(0);
    int on = 1, receiver = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (receiver < 0 || bind(receiver, (struct sockaddr*)&name, sizeof name) != 0) return refused("bind");
    setsockopt(receiver, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    if (become_nobody() != 0) return refused("setresuid");
    char text = 'x', room[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec part = {&text, 1};
    struct msghdr message = {&name, sizeof name, &part, 1, room, sizeof room, 0};
    struct cmsghdr* head = CMSG_FIRSTHDR(&message);
    struct ucred who = {getpid(), 0, 0};
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_CREDENTIALS, head->cmsg_len = CMSG_LEN(sizeof who);
    memcpy(CMSG_DATA(head), &who, sizeof who);
    if (sendmsg(sender, &message, 0) != 1) return refused("sendmsg");
    struct msghdr got = {NULL, 0, &part, 1, room, sizeof room, 0};
    if (recvmsg(receiver, &got, 0) != 1 || (head = CMSG_FIRSTHDR(&got)) == NULL) return refused("recvmsg");
    memcpy(&who, CMSG_DATA(head), sizeof who);
    errno = EPERM;
    return who.uid == 0 ? 0 : refused("uid");
}

/* The parent of the guardian, which is the parent of this process: callgate. */
static pid_t supervisor(void) {
    char line[256];
    int parent = 0;
    FILE* file = fopen(text("/proc/%d/stat", getppid()), "re");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) return getppid();
    fclose(file);
    sscanf(strrchr(line, ')') + 1, " %*c %d", &parent);
    return parent;
}

static int reached(int result, const char* what) {
    if (result < 0) return 0;
    printf("reached by %s\n", what);
    return 1;
}

static int reach(pid_t process, pid_t thread) {
    cpu_set_t processors;
    struct rlimit limit;
    sched_getaffinity(0, sizeof processors, &processors);
    return reached((int)syscall(SYS_tgkill, process, thread, SIGURG), "tgkill") +
           reached(sched_setaffinity(thread, sizeof processors, &processors), "sched_setaffinity") +
           reached(setpriority(PRIO_PROCESS, (id_t)thread, 1), "setpriority") +
           reached(prlimit(thread, RLIMIT_CORE, NULL, &limit), "prlimit") +
           reached(open(text("/proc/%d/task/%d/mem", process, thread), O_RDWR), "mem") +
           reached(open(text("/proc/%d/task/%d/comm", process, thread), O_WRONLY), "comm") +
           reached((int)ptrace(PTRACE_SEIZE, thread, NULL, NULL), "ptrace");
}

/* Reaches for the thread that acts under this very identity: a sibling's open of a FIFO keeps it there.
 * "plain": for the sibling itself, which may be reached. */
MODE(acting_thread) {
    const char* pipe_name = in(allowed, "pipe");
    const int plain = strcmp(extra, "plain") == 0;
    const pid_t callgate = supervisor();
    int ready[2];
    char byte = 0;
    if (mkfifo(pipe_name, 0666) != 0 || pipe(ready) != 0) return refused("mkfifo");
    chmod(pipe_name, 0666);
    if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return refused("setresuid");
    pid_t child = fork();
    if (child == 0) _exit(write(ready[1], "r", 1) != 1 || open(pipe_name, O_RDONLY) < 0);
    if (child < 0 || read(ready[0], &byte, 1) != 1) return refused("fork");
    int wins = 0;
    for (int round = 0; round < 20 && wins == 0; ++round) {
        if (plain) wins += reach(child, child);
        /* callgate's threads begin soon after it. */
        for (pid_t thread = callgate; thread < callgate + 32 && !plain; ++thread)
            if (thread != getpid() && thread != child) wins += reach(callgate, thread);
    }
    close(open(pipe_name, O_WRONLY));
    waitpid(child, NULL, 0);
    errno = EPERM;
    return wins > 0 ? 0 : refused("all");
}
