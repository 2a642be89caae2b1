#include "supervisor/container/place.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/test_switch.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::container {

namespace {

struct Namespace {
    const char* name;
    int flag;
    const char* shared;  // why one that is the agent's is refused; null: it is not
};

constexpr Namespace namespaces[] = {
    {"user", CLONE_NEWUSER, nullptr},
    {"mnt", CLONE_NEWNS, "it has the host's mount namespace"},
    {"net", CLONE_NEWNET, nullptr},
    // A control file remembers the namespace of who opened it, and with it which limits may be changed.
    {"cgroup", CLONE_NEWCGROUP, nullptr},
    {"ipc", CLONE_NEWIPC, "it has the host's IPC namespace, whose objects these rules do not hold"},
    {"pid", 0, "it has the host's PID namespace, whose processes these rules do not hold"},
};

Problem failed(const std::string& what) { return Problem{what + ": " + std::strerror(errno)}; }

std::string in_proc(const std::string& process, const std::string& name) {
    return "/proc/" + process + "/ns/" + name;
}

/// A procfs of this process's PID namespace, at no name.
UniqueFd own_procfs() {
    const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC)));
    if (!context || ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
        return {};
    return UniqueFd(static_cast<int>(
        ::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)));
}

/// Whether /proc of this root is the procfs of that PID namespace. No link is followed on the way there.
bool shows(const UniqueFd& root, ino_t pid_namespace) {
    open_how way{O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
    const UniqueFd first(static_cast<int>(::syscall(SYS_openat2, root.get(), "proc/1/ns", &way, sizeof way)));
    struct statfs system {};
    struct stat shown {};
    return first && ::fstatfs(first.get(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC &&
           ::fstatat(first.get(), "pid", &shown, 0) == 0 && shown.st_ino == pid_namespace;
}

/// struct pidfd_info of <linux/pidfd.h>, which Debian 12's headers lack. The handle keeps the status of a
/// process that its parent has waited for.
struct ProcessInfo {
    std::uint64_t mask = 0, cgroup = 0;
    std::uint32_t numbers[11] = {};
    std::int32_t status = 0;
};
static_assert(sizeof(ProcessInfo) == 64);
constexpr std::uint64_t info_exit = 8;
constexpr unsigned long get_info = _IOWR(0xFF, 11, ProcessInfo);

bool has_ended(const UniqueFd& process) {
    pollfd entry{process.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) != 0;
}

}  // namespace

Expected<Place> Place::of(pid_t process, pid_t first) {
    Place place;
    place.process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    place.first_.reset(static_cast<int>(::syscall(SYS_pidfd_open, first, 0)));
    if (!place.process_ || !place.first_) return failed("its process cannot be found");
    const std::string number = std::to_string(process);
    ino_t pid_namespace = 0;
    for (const Namespace& one : namespaces) {
        struct stat theirs {
        }, ours{};
        if (::stat(in_proc(number, one.name).c_str(), &theirs) != 0 ||
            ::stat(in_proc("self", one.name).c_str(), &ours) != 0)
            return failed(std::string("its namespace ") + one.name + " cannot be found");
        const bool same = theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
        if (same && one.shared != nullptr) return Problem{one.shared};
        if (!same) place.namespaces_ |= one.flag;
        if (one.flag == 0) pid_namespace = theirs.st_ino;
    }
    place.root_.reset(::open(("/proc/" + number + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!place.root_) return failed("its root cannot be opened");
    const auto numbers = kernel::own_numbers(first);
    if (!numbers) return failed("its first process cannot be found");
    if (numbers->process != 1 && check_enabled("container-first"))
        return Problem{
            "it has the PID namespace of another container, whose processes these rules do not hold"};
    if (!shows(place.root_, pid_namespace)) return Problem{"its /proc is not that of its own PID namespace"};
    place.numbers_ = own_procfs();
    if (!place.numbers_) return failed("no procfs can be made");
    if (has_ended(place.process_)) return Problem{"its process has ended"};
    return place;
}

Expected<void> Place::enter() const {
    ::prctl(PR_SET_DUMPABLE, 0);
    if (::setns(process_.get(), namespaces_) != 0) return failed("its namespaces cannot be entered");
    if (::fchdir(root_.get()) != 0 || ::chroot(".") != 0) return failed("its root cannot be entered");
    if ((namespaces_ & CLONE_NEWUSER) != 0 &&
        (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0))
        return failed("its user namespace has no root to act as");
    ::prctl(PR_SET_DUMPABLE, 0);  // a change of identity may set it
    if (::fchdir(numbers_.get()) != 0) return failed("the procfs cannot be entered");
    kernel::proc_root = "";
    return {};
}

bool Place::has_own_users() const { return (namespaces_ & CLONE_NEWUSER) != 0; }

std::optional<int> Place::wait_status() const {
    constexpr int patience_ms = 10'000;
    for (bool waited : {false, true}) {
        ProcessInfo info{.mask = info_exit};
        if (::ioctl(first_.get(), get_info, &info) != 0) return std::nullopt;
        if ((info.mask & info_exit) != 0) return info.status;
        pollfd hang_up{first_.get(), 0, 0};
        if (!waited) ::poll(&hang_up, 1, patience_ms);
    }
    return std::nullopt;
}

void Place::end() const { ::syscall(SYS_pidfd_send_signal, first_.get(), SIGKILL, nullptr, 0); }

}  // namespace callgate::container
