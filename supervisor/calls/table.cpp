#include "supervisor/calls/table.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <array>

// Newer than the headers of Debian 12.
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::OperationSet;

constexpr OperationSet opens{Operation::read, Operation::modify, Operation::create};
constexpr OperationSet moves{Operation::create, Operation::remove};

// Columns: number, name, operations, handler, {directory, path} of the first and second path, flags, mode.
constexpr auto table = std::to_array<CallEntry>({
#ifdef SYS_open
    {SYS_open, "open", opens, handle_open, {-1, 0}, {}, 1, 2, OpenFlags::argument},
    {SYS_creat, "creat", opens, handle_open, {-1, 0}, {}, -1, 1, OpenFlags::write_only},
#endif
    {SYS_openat, "openat", opens, handle_open, {0, 1}, {}, 2, 3, OpenFlags::argument},
    {SYS_openat2, "openat2", opens, handle_openat2, {0, 1}, {}, -1, -1, OpenFlags::in_memory},
#ifdef SYS_mkdir
    {SYS_mkdir, "mkdir", Operation::create, handle_mkdir, {-1, 0}, {}, -1, 1},
    {SYS_mknod, "mknod", Operation::create, handle_mknod, {-1, 0}, {}, -1, 1},
    {SYS_symlink, "symlink", Operation::create, handle_symlink, {-1, 0}, {-1, 1}},
    {SYS_unlink, "unlink", Operation::remove, handle_unlink, {-1, 0}, {}},
    {SYS_rmdir, "rmdir", Operation::remove, handle_rmdir, {-1, 0}, {}},
    {SYS_rename, "rename", moves, handle_rename, {-1, 0}, {-1, 1}},
    {SYS_link, "link", Operation::create, handle_link, {-1, 0}, {-1, 1}},
    {SYS_chmod, "chmod", Operation::metadata, handle_chmod, {-1, 0}, {}, -1, 1},
    {SYS_chown, "chown", Operation::metadata, handle_chown, {-1, 0}, {}},
    {SYS_lchown, "lchown", Operation::metadata, handle_chown, {-1, 0}, {}},
    {SYS_utime, "utime", Operation::metadata, handle_times, {-1, 0}, {}},
    {SYS_utimes, "utimes", Operation::metadata, handle_times, {-1, 0}, {}},
    {SYS_futimesat, "futimesat", Operation::metadata, handle_times, {0, 1}, {}},
#endif
    {SYS_mkdirat, "mkdirat", Operation::create, handle_mkdir, {0, 1}, {}, -1, 2},
    {SYS_mknodat, "mknodat", Operation::create, handle_mknod, {0, 1}, {}, -1, 2},
    {SYS_symlinkat, "symlinkat", Operation::create, handle_symlink, {-1, 0}, {1, 2}},
    {SYS_unlinkat, "unlinkat", Operation::remove, handle_unlink, {0, 1}, {}, 2},
#ifdef SYS_renameat
    {SYS_renameat, "renameat", moves, handle_rename, {0, 1}, {2, 3}},
#endif
    {SYS_renameat2, "renameat2", moves, handle_rename, {0, 1}, {2, 3}, 4},
    {SYS_linkat, "linkat", Operation::create, handle_link, {0, 1}, {2, 3}, 4},
    {SYS_truncate, "truncate", Operation::modify, handle_truncate, {-1, 0}, {}},
    {SYS_fchmodat, "fchmodat", Operation::metadata, handle_chmod, {0, 1}, {}, -1, 2},
    {SYS_fchmodat2, "fchmodat2", Operation::metadata, handle_chmod, {0, 1}, {}, 3, 2},
    {SYS_fchownat, "fchownat", Operation::metadata, handle_chown, {0, 1}, {}, 4},
    {SYS_utimensat, "utimensat", Operation::metadata, handle_times, {0, 1}, {}, 3},
    {SYS_fchmod, "fchmod", Operation::metadata, handle_fchmod, {}, {}},
    {SYS_fchown, "fchown", Operation::metadata, handle_fchown, {}, {}},
    {SYS_execve, "execve", Operation::execute, handle_execute, {-1, 0}, {}},
    {SYS_execveat, "execveat", Operation::execute, handle_execute, {0, 1}, {}, 4},
    {SYS_connect, "connect", Operation::connect, handle_connect, {}, {}},
    {SYS_bind, "bind", Operation::bind, handle_bind, {}, {}},
    {SYS_listen, "listen", Operation::bind, handle_listen, {}, {}},
    {SYS_getsockname, "getsockname", Operation::bind, handle_getsockname, {}, {}},
    {SYS_sendto, "sendto", Operation::connect, handle_sendto, {}, {}},
    {SYS_sendmsg, "sendmsg", Operation::connect, handle_sendmsg, {}, {}},
    {SYS_sendmmsg, "sendmmsg", Operation::connect, handle_sendmmsg, {}, {}},
    {SYS_prlimit64, "prlimit64", {}, handle_stranger, {}, {}, -1, -1, OpenFlags::none, Scope::stranger},
    {SYS_setpriority, "setpriority", {}, handle_stranger, {}, {}, -1, -1, OpenFlags::none, Scope::stranger},
    {SYS_ioprio_set, "ioprio_set", {}, handle_stranger, {}, {}, -1, -1, OpenFlags::none, Scope::stranger},
    {SYS_sched_setaffinity,
     "sched_setaffinity",
     {},
     handle_stranger,
     {},
     {},
     -1,
     -1,
     OpenFlags::none,
     Scope::stranger},
    {SYS_sched_setscheduler,
     "sched_setscheduler",
     {},
     handle_stranger,
     {},
     {},
     -1,
     -1,
     OpenFlags::none,
     Scope::stranger},
    {SYS_sched_setparam,
     "sched_setparam",
     {},
     handle_stranger,
     {},
     {},
     -1,
     -1,
     OpenFlags::none,
     Scope::stranger},
    {SYS_sched_setattr,
     "sched_setattr",
     {},
     handle_stranger,
     {},
     {},
     -1,
     -1,
     OpenFlags::none,
     Scope::stranger},
    {SYS_kill, "kill", {}, handle_stranger, {}, {}, -1, -1, OpenFlags::none, Scope::stranger},
    {SYS_tkill, "tkill", {}, handle_stranger, {}, {}, -1, -1, OpenFlags::none, Scope::stranger},
    {SYS_tgkill, "tgkill", {}, handle_stranger, {}, {}, -1, -1, OpenFlags::none, Scope::stranger},
    {SYS_rt_sigqueueinfo,
     "rt_sigqueueinfo",
     {},
     handle_stranger,
     {},
     {},
     -1,
     -1,
     OpenFlags::none,
     Scope::stranger},
    {SYS_rt_tgsigqueueinfo,
     "rt_tgsigqueueinfo",
     {},
     handle_stranger,
     {},
     {},
     -1,
     -1,
     OpenFlags::none,
     Scope::stranger},
});

}  // namespace

std::span<const CallEntry> call_table() { return table; }

const CallEntry* find_call(std::uint32_t number) {
    static const auto by_number = [] {
        std::array<const CallEntry*, 512> index{};
        for (const CallEntry& entry : table) index[entry.number] = &entry;
        return index;
    }();
    return number < by_number.size() ? by_number[number] : nullptr;
}

}  // namespace callgate::calls
