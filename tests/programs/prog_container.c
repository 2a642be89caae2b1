/* Executes a command as a container without added capabilities would: under a filter that refuses what the published
 * default profiles of Docker (moby) and podman (containers-common) do not allow, and with their default capabilities.
 *
 *   prog_container PROFILE[,+CALL][,-CALL]... COMMAND [ARGUMENT]...
 *
 * PROFILE is docker or podman; +CALL is let through although the profile refuses it (as --cap-add and newer profiles
 * do), -CALL is refused although it lets it through (as older ones do). Only calls of the list below can be named.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* What each answers: 0 where it lets the call through. Docker's default is EPERM, podman's ENOSYS. */
struct call {
    const char *name;
    int number, docker, podman;
};
static struct call calls[] = {
    {"acct", SYS_acct, EPERM, EPERM},
    {"add_key", SYS_add_key, EPERM, ENOSYS},
    {"bpf", SYS_bpf, EPERM, EPERM},
    {"clock_settime", SYS_clock_settime, EPERM, EPERM},
    {"clone3", SYS_clone3, ENOSYS, 0},
    {"close_range", SYS_close_range, 0, 0},
    {"delete_module", SYS_delete_module, EPERM, EPERM},
    {"fanotify_init", SYS_fanotify_init, EPERM, EPERM},
    {"finit_module", SYS_finit_module, EPERM, EPERM},
    {"fsconfig", SYS_fsconfig, EPERM, 0},
    {"fsmount", SYS_fsmount, EPERM, 0},
    {"fsopen", SYS_fsopen, EPERM, 0},
    {"fspick", SYS_fspick, EPERM, 0},
    {"get_mempolicy", SYS_get_mempolicy, EPERM, EPERM},
    {"init_module", SYS_init_module, EPERM, EPERM},
    {"io_uring_enter", SYS_io_uring_enter, 0, ENOSYS},
    {"io_uring_register", SYS_io_uring_register, 0, ENOSYS},
    {"io_uring_setup", SYS_io_uring_setup, 0, ENOSYS},
    {"kcmp", SYS_kcmp, EPERM, EPERM},
    {"kexec_load", SYS_kexec_load, EPERM, EPERM},
    {"keyctl", SYS_keyctl, EPERM, 0},
    {"landlock_add_rule", 445, 0, ENOSYS},
    {"landlock_create_ruleset", 444, 0, ENOSYS},
    {"landlock_restrict_self", 446, 0, ENOSYS},
    {"lookup_dcookie", SYS_lookup_dcookie, EPERM, EPERM},
    {"mbind", SYS_mbind, EPERM, EPERM},
    {"membarrier", SYS_membarrier, 0, EPERM},
    {"migrate_pages", SYS_migrate_pages, EPERM, EPERM},
    {"mount", SYS_mount, EPERM, 0},
    {"move_mount", SYS_move_mount, EPERM, 0},
    {"move_pages", SYS_move_pages, EPERM, EPERM},
    {"open_by_handle_at", SYS_open_by_handle_at, EPERM, EPERM},
    {"open_tree", SYS_open_tree, EPERM, 0},
    {"openat2", SYS_openat2, 0, 0},
    {"perf_event_open", SYS_perf_event_open, EPERM, EPERM},
    {"pidfd_getfd", SYS_pidfd_getfd, EPERM, 0},
    {"pidfd_open", SYS_pidfd_open, 0, 0},
    {"pidfd_send_signal", SYS_pidfd_send_signal, 0, 0},
    {"pivot_root", SYS_pivot_root, EPERM, 0},
    {"prlimit64", SYS_prlimit64, 0, 0},
    {"process_madvise", SYS_process_madvise, EPERM, EPERM},
    {"process_vm_readv", SYS_process_vm_readv, 0, EPERM},
    {"process_vm_writev", SYS_process_vm_writev, 0, EPERM},
    {"ptrace", SYS_ptrace, 0, EPERM},
    {"quotactl", SYS_quotactl, EPERM, EPERM},
    {"reboot", SYS_reboot, EPERM, 0},
    {"request_key", SYS_request_key, EPERM, ENOSYS},
    {"seccomp", SYS_seccomp, 0, 0},
    {"set_mempolicy", SYS_set_mempolicy, EPERM, EPERM},
    {"setdomainname", SYS_setdomainname, EPERM, EPERM},
    {"sethostname", SYS_sethostname, EPERM, EPERM},
    {"setns", SYS_setns, EPERM, EPERM},
    {"settimeofday", SYS_settimeofday, EPERM, EPERM},
    {"swapoff", SYS_swapoff, EPERM, EPERM},
    {"swapon", SYS_swapon, EPERM, EPERM},
    {"syslog", SYS_syslog, EPERM, 0},
    {"umount2", SYS_umount2, EPERM, 0},
    {"unshare", SYS_unshare, EPERM, 0},
    {"userfaultfd", SYS_userfaultfd, EPERM, EPERM},
    {"vhangup", SYS_vhangup, EPERM, EPERM},
    {"vmsplice", SYS_vmsplice, 0, EPERM},
};
#define CALLS (sizeof calls / sizeof *calls)
/* The profiles know no call that is newer (450 is set_mempolicy_home_node). */
#define NEWEST 449
/* CLONE_NEWNS and its like: refused to clone by Docker. */
#define NAMESPACES 0x7E020000u

/* The capabilities of a container that was given no others: both engines' defaults, taken together. */
static const int kept[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FSETID, CAP_FOWNER, CAP_SETGID, CAP_SETUID, CAP_SETFCAP,
                           CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_KILL};

static int may_trace;     /* +cap_sys_ptrace */
static int own_limits;    /* -prlimit_others: prlimit64 of the caller itself alone */

static void fail(const char *what) {
    perror(what);
    exit(99);
}

static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {0};
    unsigned long long wanted = 0;
    if (geteuid() != 0) return;
    for (size_t at = 0; at < sizeof kept / sizeof *kept; ++at) wanted |= 1ULL << kept[at];
    if (may_trace) wanted |= 1ULL << CAP_SYS_PTRACE;
    for (int one = 0; prctl(PR_CAPBSET_READ, one) >= 0; ++one)
        if (!(wanted >> one & 1) && prctl(PR_CAPBSET_DROP, one)) fail("PR_CAPBSET_DROP");
    for (int word = 0; word < 2; ++word) sets[word].effective = sets[word].permitted = (unsigned)(wanted >> 32 * word);
    if (syscall(SYS_capset, &header, sets)) fail("capset");
}

static struct sock_filter code[2 * CALLS + 32];
static unsigned short length;

static void add(unsigned short what, unsigned number, unsigned char yes, unsigned char no) {
    code[length++] = (struct sock_filter){what, yes, no, number};
}
static void load(unsigned offset) { add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
static void answer(unsigned what) { add(BPF_RET | BPF_K, what, 0, 0); }
static unsigned error(int number) { return SECCOMP_RET_ERRNO | (unsigned)number; }

static void install(int docker) {
    load(offsetof(struct seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
    answer(error(EPERM));
    load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JGT | BPF_K, NEWEST, 0, 1);
    answer(error(docker ? EPERM : ENOSYS));
    for (size_t at = 0; at < CALLS; ++at) {
        int refusal = docker ? calls[at].docker : calls[at].podman;
        if (refusal == 0) continue;
        add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[at].number, 0, 1);
        answer(error(refusal));
    }
    if (own_limits) {
        add(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 4);
        load(offsetof(struct seccomp_data, args[0]));
        add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
        answer(error(EPERM));
        answer(SECCOMP_RET_ALLOW);
    }
    if (docker) {
        add(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
        load(offsetof(struct seccomp_data, args[0]));
        add(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1);
        answer(error(EPERM));
        answer(SECCOMP_RET_ALLOW);
        add(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3);
        load(offsetof(struct seccomp_data, args[0]));
        add(BPF_JMP | BPF_JEQ | BPF_K, 40 /* AF_VSOCK */, 0, 1);
        answer(error(EPERM));
    }
    answer(SECCOMP_RET_ALLOW);
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("PR_SET_NO_NEW_PRIVS");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) fail("seccomp");
}

static void change(const char *word) {
    int refusal = word[0] == '-' ? EPERM : 0;
    if (strcmp(word, "+cap_sys_ptrace") == 0) {
        may_trace = 1;
        return;
    }
    if (strcmp(word, "-prlimit_others") == 0) {
        own_limits = 1;
        return;
    }
    for (size_t at = 0; at < CALLS; ++at) {
        if (strcmp(calls[at].name, word + 1) != 0) continue;
        calls[at].docker = calls[at].podman = refusal;
        return;
    }
    fprintf(stderr, "unknown call %s\n", word);
    exit(99);
}

int main(int count, char **arguments) {
    if (count < 3) return 98;
    char *word = strtok(arguments[1], ",");
    int docker = strcmp(word, "docker") == 0;
    if (!docker && strcmp(word, "podman") != 0) return 98;
    while ((word = strtok(NULL, ","))) change(word);
    drop_capabilities();
    install(docker);
    execvp(arguments[2], arguments + 2);
    fail(arguments[2]);
}
