#include "relay/confine.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/landlock.hpp"
#include "base/process/capabilities.hpp"

namespace callgate::relay {

namespace {

Result<void> enter_empty_domain() {
    namespace landlock = agent::landlock;
    agent::RulesetParts parts;
    parts.abi = agent::kernel_landlock_abi();
    if (parts.abi == 0) return {};
    parts.attributes.handled_fs = landlock::known_rights(parts.abi);
    if (parts.abi >= 4) parts.attributes.handled_net = landlock::net_bind_tcp | landlock::net_connect_tcp;
    if (parts.abi >= 6) parts.attributes.scoped = landlock::scope_abstract_socket | landlock::scope_signal;
    const auto ruleset = parts.make();
    if (!ruleset) return ruleset.error();
    if (::syscall(SYS_landlock_restrict_self, ruleset->get(), 0U) != 0) return errno_code();
    return {};
}

/// The calls of front.cpp and connection.cpp, and those by which the C library gets memory and ends.
constexpr std::uint32_t needed[] = {
    SYS_accept4,     SYS_brk,        SYS_clock_gettime,   SYS_close,          SYS_epoll_ctl,
    SYS_epoll_pwait,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    SYS_exit,        SYS_exit_group, SYS_fcntl,           SYS_futex,          SYS_getsockopt,
    SYS_madvise,     SYS_mmap,       SYS_mprotect,        SYS_mremap,         SYS_munmap,
    SYS_recvfrom,    SYS_recvmsg,    SYS_restart_syscall, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sendto,      SYS_setsockopt, SYS_shutdown};

#if defined(__x86_64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
#endif

/// A list of what is allowed; anything else kills. Numbers of x32 are not in it.
Result<void> enter_filter(std::span<const std::uint32_t> further) {
    std::vector<sock_filter> program;
    const auto test = [&program](std::uint32_t value, std::uint8_t skip_if_equal,
                                 std::uint8_t skip_otherwise) {
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip_if_equal, skip_otherwise));
    };
    const auto end = [&program](std::uint32_t action) {
        program.push_back(BPF_STMT(BPF_RET | BPF_K, action));
    };
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
    test(own_architecture, 1, 0);
    end(SECCOMP_RET_KILL_PROCESS);
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    for (const std::span<const std::uint32_t> calls : {std::span<const std::uint32_t>(needed), further})
        for (const std::uint32_t call : calls) {
            test(call, 0, 1);
            end(SECCOMP_RET_ALLOW);
        }
    end(SECCOMP_RET_KILL_PROCESS);
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0UL, 0UL) != 0) return errno_code();
    return {};
}

}  // namespace

Result<void> confine_front(std::span<const std::uint32_t> further) {
    constexpr rlimit no_core{0, 0};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0 ||
        ::prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL) != 0 || ::setrlimit(RLIMIT_CORE, &no_core) != 0)
        return errno_code();
    if (const auto dropped = drop_capabilities(); !dropped) return dropped.error();
    if (const auto entered = enter_empty_domain(); !entered) return entered.error();
    return enter_filter(further);
}

}  // namespace callgate::relay
