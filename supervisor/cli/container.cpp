#include "supervisor/cli/container.hpp"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "agent/handover.hpp"
#include "base/unique_fd.hpp"
#include "base/words.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::cli {

namespace {

bool refused(long answer) { return answer < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES); }

/// EOPNOTSUPP always comes from the kernel. ENOSYS may come from a filter, if there is one.
bool landlock_refused(bool filtered) {
    const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0UL, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 && (errno == EPERM || errno == EACCES || (errno == ENOSYS && filtered));
}

std::vector<std::string_view> refused_calls(bool filtered) {
    std::vector<std::string_view> names;
    const auto try_call = [&names](std::string_view name, long answer) {
        if (refused(answer)) names.push_back(name);
    };
    try_call("pidfd_open", ::syscall(SYS_pidfd_open, -1, 0U));
    try_call("pidfd_send_signal", ::syscall(SYS_pidfd_send_signal, -1, 0, nullptr, 0U));
    try_call("openat2", ::syscall(SYS_openat2, -1, "", nullptr, 0UL));
    try_call("close_range", ::syscall(SYS_close_range, 2U, 1U, 0U));
    rlimit now{};
    try_call("prlimit", ::prlimit(0, RLIMIT_LOCKS, nullptr, &now));
    if (landlock_refused(filtered)) names.emplace_back("landlock_create_ruleset");
    return names;
}

}  // namespace

Container probe_container() {
    Container found;
    found.filtered = ::prctl(PR_GET_SECCOMP) != 0;
    found.refused = refused_calls(found.filtered);
    found.descriptors = !agent::pidfd_getfd_refused();
    found.memory_calls = !kernel::memory_calls_are_refused();
    if (!found.memory_calls)
        found.memory_file = UniqueFd(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)).valid();
    // No process has the number 0: the kernel says ESRCH.
    found.ptrace = !refused(::ptrace(PTRACE_SEIZE, 0, nullptr, nullptr));
    found.kcmp = !refused(::syscall(SYS_kcmp, ::getpid(), ::getpid(), 2, 0UL, 0UL));
    found.keyrings = !refused(::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0));
    rlimit now{};
    found.limits = !refused(::prlimit(::getpid(), RLIMIT_LOCKS, nullptr, &now));
    return found;
}

std::optional<std::string> obstacle(const Container& container) {
    const std::string names = joined(container.refused, ", ");
    if (!names.empty()) {
        if (!container.filtered)
            return "this kernel has no " + names + "; callgate needs Linux 5.19 or newer";
        return "the seccomp profile of this container refuses " + names + ", which callgate needs; " +
               std::string(loosen_profile);
    }
    if (!container.memory_calls && !container.memory_file)
        return "the memory of the command cannot be read: the seccomp profile of this container refuses "
               "process_vm_readv, and /proc/PID/mem cannot be opened; " +
               std::string(add_ptrace);
    return std::nullopt;
}

}  // namespace callgate::cli
