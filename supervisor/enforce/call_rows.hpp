// The rows of the call table: every mediated call and its treatment. A new call begins here.
//
// The rows are read at compile time, by call_table.cpp and by the dispatch of handlers
// (receive/dispatch.cpp). All other code uses call_table.hpp.
#pragma once

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>

#include "base/io_priority.hpp"
#include "supervisor/enforce/argument_tests.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace callgate::enforce {

namespace rows {

using rules::Operation;
using rules::OperationSet;

constexpr OperationSet opens{Operation::read, Operation::modify, Operation::create};
constexpr OperationSet moves{Operation::create, Operation::remove};
constexpr OperationSet metadata = Operation::metadata;

constexpr std::uint64_t core_limit = RLIMIT_CORE;

using Mode = NotifyArguments::Mode;

/// Notified only if this test holds, or one of these two.
constexpr NotifyArguments only(ArgumentTest one) { return {Mode::only, {{{{one}, 1}}}, 1}; }
constexpr NotifyArguments only(ArgumentTest one, ArgumentTest other) {
    return {Mode::only, {{{{one}, 1}, {{other}, 1}}}, 2};
}
/// Notified only if both tests hold, or unless both hold.
constexpr NotifyArguments only_both(ArgumentTest one, ArgumentTest other) {
    return {Mode::only, {{{{one, other}, 2}}}, 1};
}
constexpr NotifyArguments except(ArgumentTest one) { return {Mode::except, {{{{one}, 1}}}, 1}; }
constexpr NotifyArguments except_both(ArgumentTest one, ArgumentTest other) {
    return {Mode::except, {{{{one, other}, 2}}}, 1};
}

constexpr CallEntry datagram(std::string_view name, NotifyWhen when, NotifyArguments arguments = {}) {
    return {name, Operation::connect, Performed::on_behalf, {},   {},       -1,
            -1,   OpenFlags::none,    Scope::object,        when, arguments};
}

/// A call that could take the port from a server of the run's own, or open it to others.
constexpr CallEntry on_server(std::string_view name, NotifyArguments arguments) {
    return {name,
            Operation::bind,
            Performed::on_behalf,
            {},
            {},
            -1,
            -1,
            OpenFlags::none,
            Scope::object,
            NotifyWhen::run_servers,
            arguments};
}

/// A call that can give a symbolic link a name. Landlock grants no such right, so each is performed on
/// behalf.
constexpr CallEntry names_link(std::string_view name, OperationSet operations, PathArgument first,
                               PathArgument second, std::int8_t flags = -1) {
    return {name,  operations, Performed::on_behalf, first,         second,
            flags, -1,         OpenFlags::none,      Scope::object, NotifyWhen::always};
}

/// A call on processes by number.
constexpr CallEntry on_process(std::string_view name, Performed performed, NotifyWhen when,
                               NotifyArguments arguments = {}) {
    return {name, {}, performed, {}, {}, -1, -1, OpenFlags::none, Scope::process, when, arguments};
}

/// A call on objects that the whole user shares.
constexpr CallEntry on_ipc_object(std::string_view name, Performed performed) {
    return {name, {}, performed, {}, {}, -1, -1, OpenFlags::none, Scope::ipc_object, NotifyWhen::always};
}

}  // namespace rows

// Columns, in order:
// - name, operations, `Performed`;
// - {directory, path} of the first and of the second path; flags; mode; OpenFlags;
// - scope, `NotifyWhen`, `NotifyArguments`. Calls of only one architecture stand here too.
// clang-format off
inline constexpr auto call_rows = [] {
    using namespace rows;
    return std::to_array<CallEntry>({
    {"open", opens, Performed::either, {-1, 0}, {}, 1, 2, OpenFlags::argument},
    {"creat", opens, Performed::either, {-1, 0}, {}, -1, 1, OpenFlags::write_only},
    {"openat", opens, Performed::either, {0, 1}, {}, 2, 3, OpenFlags::argument},
    {"openat2", opens, Performed::either, {0, 1}, {}, -1, -1, OpenFlags::in_memory},

    {"mkdir", Operation::create, Performed::either, {-1, 0}, {}, -1, 1},
    {"mkdirat", Operation::create, Performed::either, {0, 1}, {}, -1, 2},
    {"mknod", Operation::create, Performed::either, {-1, 0}, {}, -1, 1},
    {"mknodat", Operation::create, Performed::either, {0, 1}, {}, -1, 2},
    names_link("symlink", Operation::create, {-1, 0}, {-1, 1}),
    names_link("symlinkat", Operation::create, {-1, 0}, {1, 2}),
    {"unlink", Operation::remove, Performed::either, {-1, 0}, {}},
    {"unlinkat", Operation::remove, Performed::either, {0, 1}, {}, 2},
    {"rmdir", Operation::remove, Performed::either, {-1, 0}, {}},
    names_link("rename", moves, {-1, 0}, {-1, 1}),
    names_link("renameat", moves, {0, 1}, {2, 3}),
    names_link("renameat2", moves, {0, 1}, {2, 3}, 4),
    names_link("link", Operation::create, {-1, 0}, {-1, 1}),
    names_link("linkat", Operation::create, {0, 1}, {2, 3}, 4),
    {"truncate", Operation::modify, Performed::either, {-1, 0}, {}, -1, -1, OpenFlags::none, Scope::object,
     NotifyWhen::contested_truncation},

    {"chmod", metadata, Performed::on_behalf, {-1, 0}, {}, -1, 1},
    {"fchmodat", metadata, Performed::on_behalf, {0, 1}, {}, -1, 2},
    {"fchmodat2", metadata, Performed::on_behalf, {0, 1}, {}, 3, 2},
    {"fchmod", metadata, Performed::on_behalf, {}, {}, -1, 1},
    {"chown", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"lchown", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"fchownat", metadata, Performed::on_behalf, {0, 1}, {}, 4},
    {"fchown", metadata, Performed::on_behalf, {}, {}},
    {"utime", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"utimes", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"futimesat", metadata, Performed::on_behalf, {0, 1}, {}},
    {"utimensat", metadata, Performed::on_behalf, {0, 1}, {}, 3},
    {"setxattr", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"lsetxattr", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"fsetxattr", metadata, Performed::on_behalf, {}, {}},
    {"setxattrat", metadata, Performed::on_behalf, {0, 1}, {}, 2},
    {"removexattr", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"lremovexattr", metadata, Performed::on_behalf, {-1, 0}, {}},
    {"fremovexattr", metadata, Performed::on_behalf, {}, {}},
    {"removexattrat", metadata, Performed::on_behalf, {0, 1}, {}, 2},
    {"file_setattr", metadata, Performed::on_behalf, {0, 1}, {}, 4},
    {"ioctl", metadata, Performed::on_behalf, {}, {}, -1, -1, OpenFlags::none, Scope::object,
     NotifyWhen::contested, only(equals(1, FS_IOC_SETFLAGS), equals(1, FS_IOC_FSSETXATTR))},

    {"execve", Operation::execute, Performed::by_kernel, {-1, 0}, {}},
    {"execveat", Operation::execute, Performed::by_kernel, {0, 1}, {}, 4},

    {"socket", Operation::connect, Performed::on_behalf, {}, {}, -1, -1, OpenFlags::none, Scope::object,
     NotifyWhen::by_socket_kind},
    {"socketpair", {}, Performed::on_behalf, {}, {}, -1, -1, OpenFlags::none, Scope::object,
     NotifyWhen::by_socket_kind},
    {"connect", Operation::connect, Performed::on_behalf, {}, {}},
    {"bind", Operation::bind, Performed::either, {}, {}},
    {"listen", Operation::bind, Performed::either, {}, {}},
    {"getsockname", Operation::bind, Performed::either, {}, {}},
    on_server("shutdown", except(equals(1, SHUT_WR))),
    on_server("setsockopt", only_both(equals(1, SOL_SOCKET), equals(2, SO_REUSEPORT))),
    datagram("sendto", NotifyWhen::contested_datagrams, only(given(4))),
    datagram("sendmsg", NotifyWhen::contested_messages),
    datagram("sendmmsg", NotifyWhen::contested_messages),

    on_process("prlimit64", Performed::either, NotifyWhen::always, only(not_zero(0), equals(1, core_limit))),
    on_process("setrlimit", Performed::either, NotifyWhen::always, only(equals(0, core_limit))),
    on_process("prctl", Performed::either, NotifyWhen::always, only(equals(0, PR_SET_DUMPABLE), equals(0, PR_GET_DUMPABLE))),
    on_process("ptrace", Performed::by_kernel, NotifyWhen::always, only(equals(0, PTRACE_ATTACH), equals(0, PTRACE_SEIZE))),
    on_process("process_vm_readv", Performed::by_kernel, NotifyWhen::always),
    on_process("process_vm_writev", Performed::by_kernel, NotifyWhen::always),
    on_process("pidfd_getfd", Performed::by_kernel, NotifyWhen::always),
    on_process("kcmp", Performed::by_kernel, NotifyWhen::always),
    on_process("setpriority", Performed::either, NotifyWhen::always, except_both(equals(0, PRIO_PROCESS), equals(1, 0))),
    on_process("ioprio_set", Performed::either, NotifyWhen::always, except_both(equals(0, io_priority_of_process), equals(1, 0))),
    on_process("sched_setaffinity", Performed::by_kernel, NotifyWhen::always, only(not_zero(0))),
    on_process("sched_setscheduler", Performed::by_kernel, NotifyWhen::always, only(not_zero(0))),
    on_process("sched_setparam", Performed::by_kernel, NotifyWhen::always, only(not_zero(0))),
    on_process("sched_setattr", Performed::by_kernel, NotifyWhen::always, only(not_zero(0))),
    on_process("kill", Performed::either, NotifyWhen::signals_not_held),
    on_process("tkill", Performed::by_kernel, NotifyWhen::signals_not_held),
    on_process("tgkill", Performed::by_kernel, NotifyWhen::signals_not_held),
    on_process("rt_sigqueueinfo", Performed::by_kernel, NotifyWhen::signals_not_held),
    on_process("rt_tgsigqueueinfo", Performed::by_kernel, NotifyWhen::signals_not_held),
    // F_SETOWN selects the process that gets a file's signals, and needs no permission beyond the user's own.
    on_process("fcntl", Performed::by_kernel, NotifyWhen::signals_not_held, only_both(equals(1, F_SETOWN), not_zero(2))),

    on_ipc_object("shmget", Performed::on_behalf),
    on_ipc_object("shmat", Performed::by_kernel),
    on_ipc_object("shmctl", Performed::either),
    on_ipc_object("semget", Performed::on_behalf),
    on_ipc_object("semop", Performed::by_kernel),
    on_ipc_object("semtimedop", Performed::by_kernel),
    on_ipc_object("semctl", Performed::either),
    on_ipc_object("msgget", Performed::on_behalf),
    on_ipc_object("msgsnd", Performed::by_kernel),
    on_ipc_object("msgrcv", Performed::by_kernel),
    on_ipc_object("msgctl", Performed::either),
    on_ipc_object("mq_open", Performed::on_behalf),
    on_ipc_object("mq_unlink", Performed::on_behalf),
});
}();
// clang-format on

}  // namespace callgate::enforce
