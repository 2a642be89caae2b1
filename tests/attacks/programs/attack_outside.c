/* One reach at a process outside: its memory, descriptors, environment, limits, or a signal.
 *
 *   attack_outside MODE PID [ADDRESS [FD]]
 *
 * PID `parent` means our parent, `grandparent` its parent (under callgate: the guardian and the supervisor). Reading modes
 * print what they got. Exit 0: reached; 1: refused; 77: no such call here. The test looks at the victim from outside.
 */
#define _GNU_SOURCE
#include <asm/sockios.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t pid;
static int twin; /* pid is a child of ours */
static char *address;
static const char *fd_number = "3";

static int refused(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return errno == ENOSYS ? 77 : 1;
}

static int print_some(int fd, const char *what) {
    char content[4096];
    if (fd < 0) return refused(what);
    ssize_t got = read(fd, content, sizeof content);
    if (got <= 0) return refused("read");
    printf("got: ");
    for (ssize_t i = 0; i < got; i++) putchar(content[i] ? content[i] : ' ');
    printf("\n");
    return 0;
}

static const char *proc(const char *leaf) {
    static char path[128];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, leaf);
    return path;
}

static int reach_ptrace(void) {
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) != 0) return refused("PTRACE_ATTACH");
    waitpid(pid, NULL, __WALL);
    char content[65] = {0};
    for (size_t i = 0; i < 64; i += sizeof(long)) {
        errno = 0;
        long word = ptrace(PTRACE_PEEKDATA, pid, address + i, NULL);
        memcpy(content + i, &word, sizeof word);
    }
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    printf("got: %s\n", content);
    return 0;
}
static int reach_seize(void) {
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) return refused("PTRACE_SEIZE");
    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
    waitpid(pid, NULL, __WALL);
    long word = 'x';
    long result = ptrace(PTRACE_POKEDATA, pid, address, word);
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return result == 0 ? 0 : refused("PTRACE_POKEDATA");
}
static int reach_vm_readv(void) {
    char content[65] = {0};
    struct iovec local = {content, 64}, remote = {address, 64};
    if (process_vm_readv(pid, &local, 1, &remote, 1, 0) < 0) return refused("process_vm_readv");
    printf("got: %s\n", content);
    return 0;
}
static int reach_vm_writev(void) {
    char content[] = "x";
    struct iovec local = {content, 2}, remote = {address, 2};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) < 0 ? refused("process_vm_writev") : 0;
}
static int reach_mem_read(void) {
    int fd = open(proc("mem"), O_RDONLY);
    char content[65] = {0};
    if (fd < 0) return refused("mem");
    if (pread(fd, content, 64, (off_t)(uintptr_t)address) < 0) return refused("pread");
    printf("got: %s\n", content);
    return 0;
}
static int reach_mem_write(void) {
    int fd = open(proc("mem"), O_RDWR);
    if (fd < 0) return refused("mem");
    return pwrite(fd, "x", 2, (off_t)(uintptr_t)address) < 0 ? refused("pwrite") : 0;
}
static int reach_environ(void) { return print_some(open(proc("environ"), O_RDONLY), "environ"); }
static int reach_auxv(void) {
    if (print_some(open(proc("auxv"), O_RDONLY), "auxv") != 0) return 1;
    printf("reached auxv\n");
    return 0;
}
static int reach_maps(void) {
    if (print_some(open(proc("maps"), O_RDONLY), "maps") != 0) return 1;
    printf("reached maps\n");
    return 0;
}
static int reach_fd(void) {
    char leaf[64];
    snprintf(leaf, sizeof leaf, "fd/%s", fd_number);
    return print_some(open(proc(leaf), O_RDONLY), "fd");
}
static int reach_fd_list(void) {
    DIR *all = opendir(proc("fd"));
    if (all == NULL) return refused("opendir");
    int count = 0;
    for (struct dirent *one; (one = readdir(all)) != NULL;) count++;
    if (count < 3) return 1;
    printf("reached %d descriptors\n", count);
    return 0;
}
static int reach_root(void) {
    if (print_some(open(proc("root/etc/hostname"), O_RDONLY), "root") != 0) return 1;
    printf("reached root\n");
    return 0;
}
static int reach_cwd(void) { return print_some(open(proc("cwd/secret"), O_RDONLY), "cwd"); }
static int reach_map_files(void) {
    DIR *all = opendir(proc("map_files"));
    if (all == NULL) return refused("opendir");
    int count = 0;
    for (struct dirent *one; (one = readdir(all)) != NULL;) count += one->d_name[0] != '.';
    if (count == 0) return refused("readdir");
    printf("reached %d mappings\n", count);
    return 0;
}
static int reach_pidfd_getfd(void) {
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0) return refused("pidfd_open");
    int fd = (int)syscall(SYS_pidfd_getfd, process, atoi(fd_number), 0);
    if (fd < 0) return refused("pidfd_getfd");
    lseek(fd, 0, SEEK_SET);
    return print_some(fd, "getfd");
}
static int number(void) { return atoi(fd_number); }
static int reach_kill(void) { return kill(pid, number()) != 0 ? refused("kill") : 0; }
static int reach_killpg(void) { return kill(-pid, number()) != 0 ? refused("kill group") : 0; }
static int reach_tgkill(void) { return syscall(SYS_tgkill, pid, pid, number()) != 0 ? refused("tgkill") : 0; }
static int reach_tkill(void) { return syscall(SYS_tkill, pid, number()) != 0 ? refused("tkill") : 0; }
static int reach_sigqueue(void) {
    union sigval value = {0};
    return sigqueue(pid, number(), value) != 0 ? refused("sigqueue") : 0;
}
static int reach_tgsigqueue(void) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    return syscall(SYS_rt_tgsigqueueinfo, pid, pid, number(), &info) != 0 ? refused("rt_tgsigqueueinfo") : 0;
}
static int reach_pidfd_signal(void) {
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0) return refused("pidfd_open");
    return syscall(SYS_pidfd_send_signal, process, number(), NULL, 0) != 0 ? refused("pidfd_send_signal") : 0;
}
/* F_SETOWN makes the kernel send the signal */
static int reach_setown(void) {
    int ends[2];
    if (pipe(ends) != 0) return refused("pipe");
    if (fcntl(ends[0], F_SETOWN, pid) != 0 || fcntl(ends[0], F_SETSIG, number()) != 0) return refused("F_SETOWN");
    if (fcntl(ends[0], F_SETFL, O_ASYNC) != 0) return refused("O_ASYNC");
    return write(ends[1], "x", 1) == 1 ? 0 : refused("write");
}
/* the same with the process named in memory, or at a socket */
static int reach_setown_ex(void) {
    int ends[2];
    struct f_owner_ex owner = {F_OWNER_PID, pid};
    if (pipe(ends) != 0) return refused("pipe");
    if (fcntl(ends[0], F_SETOWN_EX, &owner) != 0 || fcntl(ends[0], F_SETSIG, number()) != 0) return refused("F_SETOWN_EX");
    if (fcntl(ends[0], F_SETFL, O_ASYNC) != 0) return refused("O_ASYNC");
    return write(ends[1], "x", 1) == 1 ? 0 : refused("write");
}
static int owned_socket(unsigned long request) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return refused("socketpair");
    if (ioctl(ends[0], request, &pid) != 0 || fcntl(ends[0], F_SETSIG, number()) != 0) return refused("owner");
    if (fcntl(ends[0], F_SETFL, O_ASYNC) != 0) return refused("O_ASYNC");
    return write(ends[1], "x", 1) == 1 ? 0 : refused("write");
}
static int reach_setown_file(void) { return owned_socket(FIOSETOWN); }
static int reach_setown_group(void) { return owned_socket(SIOCSPGRP); }
static int reach_prlimit(void) {
    struct rlimit limit = {64, 64};
    return prlimit(pid, RLIMIT_NOFILE, &limit, NULL) != 0 ? refused("prlimit") : 0;
}
static int reach_prlimit_read(void) {
    struct rlimit limit;
    if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit) != 0) return refused("prlimit");
    printf("reached limit\n");
    return 0;
}
static int reach_setpriority(void) { return setpriority(PRIO_PROCESS, (id_t)pid, getpriority(PRIO_PROCESS, 0) < 12 ? 12 : 19) != 0 ? refused("setpriority") : 0; }
static int reach_affinity(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    return sched_setaffinity(pid, sizeof one, &one) != 0 ? refused("sched_setaffinity") : 0;
}
static int reach_scheduler(void) {
    struct sched_param none = {0};
    return sched_setscheduler(pid, SCHED_IDLE, &none) != 0 ? refused("sched_setscheduler") : 0;
}
/* of a victim that is in real time */
static int reach_schedparam(void) {
    struct sched_param lowest = {sched_getscheduler(pid) == SCHED_FIFO};
    return sched_setparam(pid, &lowest) != 0 ? refused("sched_setparam") : 0;
}
static int reach_schedattr(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.policy = SCHED_BATCH;
    wanted.nice = getpriority(PRIO_PROCESS, 0);
    return syscall(SYS_sched_setattr, pid, &wanted, 0) != 0 ? refused("sched_setattr") : 0;
}
static int reach_ioprio(void) { return syscall(SYS_ioprio_set, 1, pid, (2 << 13) | 7) != 0 ? refused("ioprio_set") : 0; }
static int reach_oom(void) {
    int fd = open(proc("oom_score_adj"), O_WRONLY);
    return fd < 0 || write(fd, "900", 3) != 3 ? refused("oom_score_adj") : 0;
}
static int reach_kcmp(void) {
    long result = syscall(SYS_kcmp, getpid(), pid, 2 /* KCMP_FILES */, 0, 0);
    if (result < 0) return refused("kcmp");
    printf("reached kcmp\n");
    return 0;
}
static int reach_madvise(void) {
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    struct iovec range = {address, 4096};
    if (process < 0) return refused("pidfd_open");
    long result = syscall(SYS_process_madvise, process, &range, 1, 21 /* MADV_PAGEOUT */, 0);
    if (result < 0) return refused("process_madvise");
    printf("reached madvise\n");
    return 0;
}

static int reach_robust_list(void) {
    void *head;
    size_t size;
    if (syscall(SYS_get_robust_list, pid, &head, &size) != 0) return refused("get_robust_list");
    printf("reached robust list\n");
    return 0;
}
static int reach_migrate_pages(void) {
    unsigned long node = 1;
    if (syscall(SYS_migrate_pages, pid, 8 * sizeof node, &node, &node) < 0) return refused("migrate_pages");
    printf("reached pages\n");
    return 0;
}
static int reach_move_pages(void) {
    void *page = (void *)((uintptr_t)address & ~4095UL);
    int node;
    if (syscall(SYS_move_pages, pid, 1UL, &page, NULL, &node, 0) < 0) return refused("move_pages");
    printf("reached pages\n");
    return 0;
}
/* What reaches further than one process, and is answered by the strictest: that an own child got it counts. */
enum { io_process = 1, io_group, io_user, io_best_effort = 2 << 13 };
static long io_of(pid_t of) { return syscall(SYS_ioprio_get, io_process, of); }
static int nice_all(int which) {
    int result = setpriority(which, 0, 19);
    if (twin) return getpriority(PRIO_PROCESS, (id_t)pid) == 19 ? 0 : refused("setpriority");
    return result != 0 ? refused("setpriority") : 0;
}
static int io_all(int which) {
    long result = syscall(SYS_ioprio_set, which, which == io_user ? (int)getuid() : 0, io_best_effort | 7);
    if (twin) return io_of(pid) == (io_best_effort | 7) ? 0 : refused("ioprio_set");
    return result != 0 ? refused("ioprio_set") : 0;
}
static int reach_nice_group(void) { return nice_all(PRIO_PGRP); }
static int reach_nice_user(void) { return nice_all(PRIO_USER); }
static int reach_io_group(void) { return io_all(io_group); }
static int reach_io_user(void) { return io_all(io_user); }
static int reach_kill_group(void) {
    signal(SIGUSR1, SIG_IGN);
    return kill(0, SIGUSR1) != 0 ? refused("kill") : 0;
}

/* Between the group of one's own and that of the whole job. */
static void *change_group(void *job) {
    for (;;) setpgid(0, 0), setpgid(0, *(pid_t *)job);
    return NULL;
}
static int reach_io_group_race(void) {
    static pid_t job;
    pthread_t thread;
    struct timespec start, now;
    job = getpgrp();
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (pthread_create(&thread, NULL, change_group, &job) != 0) return refused("thread");
    do {
        syscall(SYS_ioprio_set, io_group, 0, io_best_effort | 7);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (io_of(pid) == (io_best_effort | 7)) return 0;
    } while (now.tv_sec - start.tv_sec < 2);
    return refused("ioprio_set");
}

static const struct {
    const char *name;
    int (*run)(void);
} reaches[] = {
#define REACH(one) {#one, reach_##one}
    REACH(ptrace), REACH(seize), REACH(vm_readv), REACH(vm_writev), REACH(mem_read), REACH(mem_write), REACH(environ), REACH(auxv),
    REACH(maps), REACH(fd), REACH(fd_list), REACH(root), REACH(cwd), REACH(map_files), REACH(pidfd_getfd), REACH(kill), REACH(killpg),
    REACH(tgkill), REACH(tkill), REACH(sigqueue), REACH(tgsigqueue), REACH(pidfd_signal), REACH(setown), REACH(setown_ex), REACH(setown_file), REACH(setown_group), REACH(prlimit), REACH(prlimit_read),
    REACH(setpriority), REACH(affinity), REACH(scheduler), REACH(schedparam), REACH(schedattr), REACH(ioprio), REACH(oom), REACH(kcmp),
    REACH(madvise), REACH(robust_list), REACH(migrate_pages), REACH(move_pages), REACH(nice_group), REACH(nice_user),
    REACH(io_group), REACH(io_user), REACH(io_group_race), REACH(kill_group),
};

static pid_t parent_of(pid_t of) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", of);
    FILE *status = fopen(path, "r");
    pid_t found = 0;
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "PPid: %d", &found) == 1) break;
    return found;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (strcmp(argv[2], "parent") == 0) pid = getppid();
    else if (strcmp(argv[2], "grandparent") == 0) pid = parent_of(getppid());
    else if (strcmp(argv[2], "child") == 0) { /* the benign twin: a process of one's own */
        address = strdup("a child's memory, as long as sixty-four bytes and then some more, to be sure");
        twin = 1;
        pid = fork();
        if (pid == 0) {
            signal(SIGUSR1, SIG_IGN);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) pause();
        }
    } else pid = atoi(argv[2]);
    if (pid <= 1) {
        fprintf(stderr, "no such process to reach\n");
        return 1;
    }
    if (argc > 3 && !twin) address = (char *)(uintptr_t)strtoull(argv[3], NULL, 10);
    if (argc > 4) fd_number = argv[4];
    for (size_t i = 0; i < sizeof reaches / sizeof *reaches; i++) {
        if (strcmp(reaches[i].name, argv[1]) != 0) continue;
        int result = reaches[i].run();
        if (twin) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        printf("%s\n", result == 0 ? "WON" : "HELD");
        return result;
    }
    return 2;
}
