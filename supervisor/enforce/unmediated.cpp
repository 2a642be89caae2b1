#include <algorithm>
#include <cerrno>

#include "supervisor/enforce/call_classes.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace callgate::enforce {

namespace {

constexpr CallGroup groups[] = {
    // ---- harmless: reaches no object of a rule ----
    {CallClass::harmless, 0,
     "works through a descriptor; the call that opened, connected or created it was decided",
     "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek sendfile splice tee "
     "vmsplice "
     "copy_file_range readahead fadvise64 fsync fdatasync sync_file_range syncfs flock getdents getdents64 "
     "io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy"},
    {CallClass::harmless, 0,
     "changes a file only through a descriptor that is open for writing: `modify` was decided at that open",
     "ftruncate fallocate"},
    {CallClass::harmless, 0, "works on an existing socket, whose peer was decided at connect, bind or send",
     "accept accept4 recvfrom recvmsg recvmmsg getpeername getsockopt"},
    {CallClass::harmless, 0, "makes, copies, watches or closes the caller's own descriptors",
     "close close_range dup dup2 dup3 pipe pipe2 eventfd eventfd2 signalfd signalfd4 timerfd_create "
     "timerfd_settime timerfd_gettime epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
     "epoll_pwait2 "
     "poll ppoll select pselect6"},
    {CallClass::harmless, 0,
     "memory of the caller itself; mapping a file needs a descriptor that was decided. Executing code from a "
     "mapped file or a memfd is not execution of a named object (threat-model.md)",
     "mmap munmap mprotect mremap brk madvise mincore msync mlock mlock2 munlock mlockall munlockall mseal "
     "map_shadow_stack remap_file_pages pkey_mprotect pkey_alloc pkey_free membarrier memfd_create mbind "
     "set_mempolicy get_mempolicy set_mempolicy_home_node modify_ldt arch_prctl cachestat shmdt"},
    {CallClass::harmless, 0, "signals to the caller itself, waiting, and sleeping",
     "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause "
     "alarm "
     "getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete nanosleep "
     "clock_nanosleep restart_syscall futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list "
     "sched_yield"},
    {CallClass::harmless, 0, "entered by breakpoints that the kernel has set", "uretprobe uprobe"},
    {CallClass::harmless, 0, "creates and reaps processes of the run, which stay in its domain and filter",
     "fork vfork exit exit_group wait4 waitid set_tid_address rseq setpgid setsid pidfd_open "
     "process_mrelease"},
    {CallClass::harmless, 0,
     "switches between identities that the process has; without capabilities it gains none. With "
     "`--keep-capabilities`, contested calls are made under the identity that the caller has then",
     "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset"},
    {CallClass::harmless, 0, "sets state that callgate reads when it decides a call", "umask chdir fchdir"},
    {CallClass::harmless, 0,
     "needs a capability, and gives no access: Landlock knows objects, not names. With "
     "`--keep-capabilities`, contested calls of a caller with another root are denied",
     "chroot"},
    {CallClass::harmless, 0, "restricts the caller further",
     "landlock_create_ruleset landlock_add_rule landlock_restrict_self"},
    {CallClass::harmless, 0,
     "reads names and attributes, which no rule restricts; listing and reading need a descriptor",
     "stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getcwd statfs "
     "fstatfs "
     "statmount listmount getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr "
     "listxattrat "
     "file_getattr inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"},
    {CallClass::harmless, 0, "a handle opens nothing: open_by_handle_at is closed", "name_to_handle_at"},
    {CallClass::harmless, 0, "reads facts about the system or a process, and changes nothing",
     "getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid "
     "getgroups "
     "capget getrlimit getrusage getpriority ioprio_get sched_getaffinity sched_getattr sched_getparam "
     "sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval sysinfo uname "
     "time "
     "times gettimeofday clock_gettime clock_getres getcpu getrandom ustat sysfs lsm_get_self_attr "
     "lsm_list_modules"},
    {CallClass::harmless, 0, "the security module decides, and NO_NEW_PRIVS holds", "lsm_set_self_attr"},
    {CallClass::harmless, 0, "makes the kernel flush data that was already written", "sync"},
    {CallClass::harmless, 0, "works on an open queue: mq_open opens only queues that the run created",
     "mq_timedsend mq_timedreceive mq_notify mq_getsetattr"},

    // ---- landlock: the kernel refuses access beyond the run ----
    {CallClass::landlock, 0,
     "needs the ptrace permission, which Landlock refuses for processes outside the run; inside it works",
     "process_madvise get_robust_list move_pages migrate_pages"},
    {CallClass::landlock, 0,
     "Landlock's signal scope protects processes outside the run. Before ABI 6 the filter refuses the call, "
     "and programs fall back to kill",
     "pidfd_send_signal"},

    // ---- some arguments are refused ----
    {CallClass::arguments, 0, "", "clone unshare personality seccomp"},

    // ---- closed ----
    {CallClass::closed, ENOSYS, "its operations bypass the filter; libraries fall back",
     "io_uring_setup io_uring_enter io_uring_register", &refused::io_uring},
    {CallClass::closed, ENOSYS, "its flags lie in memory; C libraries fall back to clone", "clone3"},
    {CallClass::closed, EPERM, "names must mean the same to caller and supervisor",
     "mount umount2 pivot_root move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick "
     "mount_setattr setns",
     &refused::mounts},
    {CallClass::closed, EPERM, "opens a file without a name; without callgate it needs a capability too",
     "open_by_handle_at", &refused::handles},
    {CallClass::closed, EPERM, "watches, and may delay, opens of other processes",
     "fanotify_init fanotify_mark", &refused::fanotify},
    {CallClass::closed, EPERM, "could delay callgate while it reads a page of such memory", "userfaultfd",
     &refused::userfaultfd},
    {CallClass::closed, EPERM, "loads programs into the kernel", "bpf", &refused::bpf},
    {CallClass::closed, EACCES, "observes other processes", "perf_event_open", &refused::perf},
    {CallClass::closed, ENOSYS, "keyrings are shared by the whole user", "add_key request_key keyctl",
     &refused::keyrings},
    {CallClass::closed, ENOSYS, "no look at a process finds such memory, so `--memory` could not count it",
     "memfd_secret", &refused::secret_memory},
    {CallClass::closed, EPERM, "administers the host",
     "kexec_load kexec_file_load init_module finit_module delete_module quotactl quotactl_fd swapon swapoff "
     "reboot "
     "settimeofday clock_settime adjtimex clock_adjtime acct syslog vhangup sethostname setdomainname iopl "
     "ioperm",
     &refused::administration},
    {CallClass::closed, ENOSYS, "no kernel that callgate runs on implements it, or it was removed since",
     "_sysctl uselib lookup_dcookie nfsservctl create_module get_kernel_syms query_module getpmsg putpmsg "
     "afs_syscall tuxcall security vserver epoll_ctl_old epoll_wait_old set_thread_area get_thread_area"},
};

/// Calls `visit(name, number, group)` for each closed call that this architecture has.
template <class Visit>
constexpr void for_each_closed(Visit visit) {
    for (const CallGroup& group : groups) {
        if (group.held != CallClass::closed) continue;
        for_each_call(group, [&](std::string_view call) {
            if (const std::uint32_t number = call_number(call); number != no_number)
                visit(call, number, group);
        });
    }
}

constexpr std::size_t closed_count = [] {
    std::size_t count = 0;
    for_each_closed([&count](std::string_view, std::uint32_t, const CallGroup&) { ++count; });
    return count;
}();

constexpr auto closed = [] {
    std::array<ClosedNumber, closed_count> numbers{};
    std::size_t filled = 0;
    for_each_closed([&](std::string_view, std::uint32_t number, const CallGroup& group) {
        numbers[filled++] = {number, group.error, group.refused};
    });
    return numbers;
}();

}  // namespace

std::span<const CallGroup> call_groups() { return groups; }

std::span<const ClosedNumber> closed_numbers() { return closed; }

std::vector<ClosedCall> closed_calls() {
    std::vector<ClosedCall> calls;
    for_each_closed([&calls](std::string_view name, std::uint32_t, const CallGroup& group) {
        calls.push_back({name, group.error, group.reason});
    });
    return calls;
}

std::optional<CallClassification> classify(std::string_view name) {
    if (find_call(name) != nullptr) return CallClassification{};
    for (const CallGroup& group : groups) {
        bool found = false;
        for_each_call(group, [&](std::string_view call) { found = found || call == name; });
        if (found) return CallClassification{group.held, group.error, group.reason};
    }
    return std::nullopt;
}

}  // namespace callgate::enforce
