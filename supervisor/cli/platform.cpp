#include "supervisor/cli/platform.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "agent/landlock.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/names/name_files.hpp"

// The headers of Debian 12 lack it (docs/dev/kernel-facts.md 2).
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

namespace callgate::cli {

namespace {

/// uname(2) of every release of gVisor (pkg/sentry/kernel/version).
constexpr std::string_view gvisor_version = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
constexpr unsigned int pidfd_thread_flag = O_EXCL;  // PIDFD_THREAD
constexpr std::uint64_t cap_sys_ptrace = 1ULL << 19;
constexpr unsigned long listener_flags =
    SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// errno of seccomp(2) without a filter: EFAULT says that the flags are known and the call is not forbidden.
int probe_flags(unsigned long flags) {
    const long answer = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, nullptr);
    return answer == 0 ? 0 : errno;
}

Platform::Listener probe_listener() {
    const int error = probe_flags(listener_flags);
    if (error == EFAULT) return Platform::Listener::available;
    if (error == EBUSY) return Platform::Listener::nested;
    if (error == EPERM || error == EACCES) return Platform::Listener::refused;
    if (error == EINVAL && probe_flags(SECCOMP_FILTER_FLAG_NEW_LISTENER) == EFAULT)
        return Platform::Listener::not_killable;
    return Platform::Listener::absent;
}

bool probe_pidfd_thread() {
    const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::gettid(), pidfd_thread_flag)));
    return fd.valid();
}

std::string small_file(const char* path) {
    auto text = read_regular_file(path, 65536);
    return text ? std::move(*text) : "";
}

std::optional<int> read_ptrace_scope() {
    const std::string text = small_file("/proc/sys/kernel/yama/ptrace_scope");
    if (text.empty()) return std::nullopt;
    return std::atoi(text.c_str());
}

std::uint64_t read_capabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
    if (::syscall(SYS_capget, &header, sets.data()) != 0) return 0;
    return sets[0].effective | static_cast<std::uint64_t>(sets[1].effective) << 32U;
}

/// In a child: a filter that allows everything, with a listener. The answer is the exit status: 0 with
/// SYNC_WAKE_UP, 1 without, else errno + 1.
[[noreturn]] void listener_child() {
    std::array<sock_filter, 1> allow = {sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program = {static_cast<unsigned short>(allow.size()), allow.data()};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const long fd = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, listener_flags, &program);
    if (fd < 0) ::_exit(errno + 1 > 255 ? 255 : errno + 1);
    const bool woken =
        ::ioctl(static_cast<int>(fd), SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) == 0;
    ::_exit(woken ? 0 : 1);
}

}  // namespace

Platform probe_platform() {
    Platform platform;
    utsname name{};
    if (::uname(&name) == 0) {
        platform.kernel = name.release;
        platform.gvisor = name.version == gvisor_version;
    }
    platform.listener = probe_listener();
    platform.landlock_abi = agent::kernel_landlock_abi();
    platform.pidfd_thread = probe_pidfd_thread();
    platform.ptrace_scope = read_ptrace_scope();
    platform.capabilities = read_capabilities();
    platform.root = ::geteuid() == 0;
    platform.container = probe_container();
    return platform;
}

std::optional<std::string> obstacle(const Platform& platform) {
    if (platform.gvisor)
        return "this is gVisor's kernel, which has neither seccomp notification nor Landlock; run this "
               "container by runc or crun";
    switch (platform.listener) {
        case Platform::Listener::available:
            break;
        case Platform::Listener::nested:
            return "this runs within callgate, and the run around cannot be reached: it does not decide "
                   "connects; start it with a rule that restricts connect, or start this command without "
                   "callgate";
        case Platform::Listener::not_killable:
            return "Linux " + platform.kernel + " is too old; callgate needs 5.19 or newer";
        case Platform::Listener::refused:
            return "the seccomp profile of this container refuses seccomp(2), which callgate needs; " +
                   std::string(loosen_profile);
        case Platform::Listener::absent:
            if (platform.container.filtered)
                return "seccomp(2) does not answer here: this container's seccomp profile refuses it, or "
                       "Linux " +
                       platform.kernel + " is older than 5.19; " + std::string(loosen_profile);
            return "Linux " + platform.kernel +
                   " has no seccomp notification; callgate needs 5.19 or newer, built "
                   "with CONFIG_SECCOMP_FILTER";
    }
    if (auto why = obstacle(platform.container)) return why;
    if (platform.landlock_abi == 0)
        return "this kernel has no Landlock; add landlock to the lsm= boot parameter, or use a kernel that "
               "has it";
    const int scope = platform.ptrace_scope.value_or(0);
    const bool may_trace = (platform.capabilities & cap_sys_ptrace) != 0;
    if (scope >= 3 || (scope == 2 && !may_trace))
        return "kernel.yama.ptrace_scope is " + std::to_string(scope) +
               ": memory of the command cannot be read; as root: sysctl kernel.yama.ptrace_scope=1" +
               (scope >= 3 ? " (3 can only be changed by a restart)" : "");
    return std::nullopt;
}

ListenerTrial try_listener() {
    const pid_t child = ::fork();
    if (child == 0) listener_child();
    if (child < 0) return {.error = errno};
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return {.error = errno};
    if (!WIFEXITED(status)) return {.error = EPERM};
    const int code = WEXITSTATUS(status);
    return {.error = code > 1 ? code - 1 : 0, .sync_wake_up = code == 0};
}

std::vector<Feature> features(const Platform& platform, const ListenerTrial& trial) {
    const bool listener = platform.listener == Platform::Listener::available && trial.error == 0;
    const int abi = platform.landlock_abi;
    const std::string_view no_room = names::room_obstacle();
    std::vector<Feature> all{
        {"listener", listener, "Linux 5.19", "calls wait for a decision", "nothing can run"},
        {"landlock", abi >= 1, "Linux 5.13", "the kernel's own limits on files", "nothing can run"},
        {"landlock-refer", abi >= 2, "Linux 5.19", "renames between directories",
         "they are decided one by one"},
        {"landlock-truncate", abi >= 3, "Linux 6.2", "truncation", "it is decided call by call"},
        {"landlock-net", abi >= 4, "Linux 6.7", "TCP ports", "connects and binds are decided one by one"},
        {"landlock-ioctl", abi >= 5, "Linux 6.10", "ioctls of devices",
         "opens of devices are decided one by one"},
        {"landlock-scope", abi >= 6, "Linux 6.12", "abstract sockets and signals to outside processes",
         "they are decided call by call"},
        {"landlock-threads", abi >= 8, "Linux 7.0", "limits for all threads of a process at once",
         "nothing: a run starts as one thread"},
        {"landlock-unix", abi >= 9, "Linux 7.1", "unix sockets by directory, and those of the run itself",
         "connects to them are decided one by one; unix datagrams need -p dgram"},
        {"landlock-udp", abi >= 10, "Linux 7.2", "UDP ports", "datagrams are decided one by one"},
        {"sync-wake-up", trial.sync_wake_up, "Linux 6.6", "quick answers", "each decision takes longer"},
        {"pidfd-thread", platform.pidfd_thread, "Linux 6.9", "threads with descriptors of their own",
         "contested calls of such threads are denied"},
        {"descriptor-copy", platform.container.descriptors, "pidfd_getfd is refused",
         "sockets of the command, whoever made them, in calls that are decided one by one",
         "callgate makes the command's sockets and keeps copies; calls on others are denied", add_ptrace},
        {"thread-descriptors", platform.pidfd_thread || platform.container.kcmp, "kcmp is refused",
         "the same for threads but the first of a process", "such calls of such threads are denied",
         add_ptrace},
        {"exec-watch", platform.container.ptrace, "ptrace is refused",
         "executions where the kernel alone would allow too many", "rule sets that need it do not start",
         add_ptrace},
        {"memory-calls", platform.container.memory_calls, "process_vm_readv is refused",
         "arguments are read quickly", "they are read by /proc/PID/mem, which takes longer", add_ptrace},
        {"names-by-udp", no_room.empty(), no_room, "programs that look names up over UDP",
         "names are looked up over TCP; programs that cannot do that find only names that rules allow "
         "literally (degraded: names-tcp-only)"},
        {"keyrings", platform.container.keyrings, "keyctl is refused", "a session keyring of the run's own",
         "it keeps the caller's, without the calls to use it", loosen_profile},
        {"nested-runs", platform.container.limits, "prlimit is refused", "callgate run within a run",
         "a nested run does not start", loosen_profile},
    };
    if (platform.gvisor)
        for (Feature& one : all) one.help = {};  // no flag of its container changes that kernel
    return all;
}

}  // namespace callgate::cli
