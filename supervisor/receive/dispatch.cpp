#include "supervisor/receive/dispatch.hpp"

#include <array>
#include <cstddef>
#include <string_view>

#include "supervisor/calls/handlers.hpp"
#include "supervisor/enforce/call_rows.hpp"

namespace callgate {

namespace {

using namespace calls;

void run(void (*handle)(FileCall&), const Call& call, const Families& all, StaticPaths& paths) {
    FileCall own{call, all.files, paths};
    handle(own);
}
void run(void (*handle)(ExecCall&), const Call& call, const Families& all, StaticPaths& /*paths*/) {
    ExecCall own{call, all.exec};
    handle(own);
}
void run(void (*handle)(NetworkCall&), const Call& call, const Families& all, StaticPaths& /*paths*/) {
    NetworkCall own{call, all.network};
    handle(own);
}
void run(void (*handle)(IpcCall&), const Call& call, const Families& all, StaticPaths& /*paths*/) {
    IpcCall own{call, all.ipc};
    handle(own);
}
void run(void (*handle)(ProcessCall&), const Call& call, const Families& all, StaticPaths& /*paths*/) {
    ProcessCall own{call, all.processes};
    handle(own);
}

/// The handler with the call of its own family.
template <auto handle>
void by(const Call& call, const Families& all, StaticPaths& paths) {
    run(handle, call, all, paths);
}

struct Handled {
    Handler handler;
    std::string_view calls;  // names in the call table, separated by spaces

    [[nodiscard]] constexpr bool names(std::string_view wanted) const {
        for (std::string_view rest = calls; !rest.empty();) {
            const std::size_t end = rest.find(' ');
            if (rest.substr(0, end) == wanted) return true;
            rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
        }
        return false;
    }
    [[nodiscard]] constexpr std::size_t count() const {
        std::size_t spaces = 0;
        for (const char byte : calls) spaces += byte == ' ' ? 1U : 0U;
        return spaces + 1;
    }
};

constexpr auto handled = std::to_array<Handled>({
    {by<handle_open>, "open creat openat"},
    {by<handle_openat2>, "openat2"},
    {by<handle_mkdir>, "mkdir mkdirat"},
    {by<handle_mknod>, "mknod mknodat"},
    {by<handle_symlink>, "symlink symlinkat"},
    {by<handle_unlink>, "unlink unlinkat"},
    {by<handle_rmdir>, "rmdir"},
    {by<handle_rename>, "rename renameat renameat2"},
    {by<handle_link>, "link linkat"},
    {by<handle_truncate>, "truncate"},
    {by<handle_chmod>, "chmod fchmodat fchmodat2"},
    {by<handle_chown>, "chown lchown fchownat"},
    {by<handle_times>, "utime utimes futimesat utimensat"},
    {by<handle_fchmod>, "fchmod"},
    {by<handle_fchown>, "fchown"},
    {by<handle_setxattr>, "setxattr lsetxattr fsetxattr"},
    {by<handle_removexattr>, "removexattr lremovexattr fremovexattr"},
    {by<handle_setxattrat>, "setxattrat"},
    {by<handle_removexattrat>, "removexattrat"},
    {by<handle_file_setattr>, "file_setattr"},
    {by<handle_ioctl>, "ioctl"},
    {by<handle_execute>, "execve execveat"},
    {by<handle_socket>, "socket"},
    {by<handle_socketpair>, "socketpair"},
    {by<handle_connect>, "connect"},
    {by<handle_bind>, "bind"},
    {by<handle_listen>, "listen"},
    {by<handle_getsockname>, "getsockname"},
    {by<handle_shutdown>, "shutdown"},
    {by<handle_setsockopt>, "setsockopt"},
    {by<handle_sendto>, "sendto"},
    {by<handle_sendmsg>, "sendmsg"},
    {by<handle_sendmmsg>, "sendmmsg"},
    {by<handle_outside_process>,
     "prlimit64 setpriority ioprio_set sched_setaffinity sched_setscheduler sched_setparam sched_setattr "
     "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo fcntl"},
    {by<handle_dumpable>, "prctl"},
    {by<handle_core_limit>, "setrlimit"},
    {by<handle_reach>, "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp"},
    {by<handle_shmget>, "shmget"},
    {by<handle_semget>, "semget"},
    {by<handle_msgget>, "msgget"},
    {by<handle_shmat>, "shmat"},
    {by<handle_semop>, "semop"},
    {by<handle_semtimedop>, "semtimedop"},
    {by<handle_msgsnd>, "msgsnd"},
    {by<handle_msgrcv>, "msgrcv"},
    {by<handle_shmctl>, "shmctl"},
    {by<handle_semctl>, "semctl"},
    {by<handle_msgctl>, "msgctl"},
    {by<handle_mq_open>, "mq_open"},
    {by<handle_mq_unlink>, "mq_unlink"},
});

constexpr bool each_row_has_one_handler() {
    for (const enforce::CallEntry& row : enforce::call_rows) {
        std::size_t found = 0;
        for (const Handled& one : handled) found += one.names(row.name) ? 1U : 0U;
        if (found != 1) return false;
    }
    return true;
}
static_assert(each_row_has_one_handler(), "a row of the call table has no handler here, or two");

constexpr bool no_name_is_unknown() {
    std::size_t named = 0;
    for (const Handled& one : handled) named += one.count();
    return named == enforce::call_rows.size();
}
static_assert(no_name_is_unknown(), "a handler names a call that the call table does not have");

/// In the order of the table's rows.
constexpr auto handlers = [] {
    std::array<Handler, enforce::call_rows.size()> found{};
    for (std::size_t row = 0; row < found.size(); ++row) {
        for (const Handled& one : handled) {
            if (one.names(enforce::call_rows[row].name)) found[row] = one.handler;
        }
    }
    return found;
}();

}  // namespace

Handler handler_of(const enforce::CallEntry& entry) {
    return handlers[static_cast<std::size_t>(&entry - enforce::call_table().data())];
}

}  // namespace callgate
