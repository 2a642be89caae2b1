#include "supervisor/calls/dispatch.hpp"

#include <array>
#include <cstddef>
#include <string_view>

#include "supervisor/calls/handlers.hpp"
#include "supervisor/enforce/call_rows.hpp"

namespace callgate::calls {
namespace {

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
    {handle_open, "open creat openat"},
    {handle_openat2, "openat2"},
    {handle_mkdir, "mkdir mkdirat"},
    {handle_mknod, "mknod mknodat"},
    {handle_symlink, "symlink symlinkat"},
    {handle_unlink, "unlink unlinkat"},
    {handle_rmdir, "rmdir"},
    {handle_rename, "rename renameat renameat2"},
    {handle_link, "link linkat"},
    {handle_truncate, "truncate"},
    {handle_chmod, "chmod fchmodat fchmodat2"},
    {handle_chown, "chown lchown fchownat"},
    {handle_times, "utime utimes futimesat utimensat"},
    {handle_fchmod, "fchmod"},
    {handle_fchown, "fchown"},
    {handle_setxattr, "setxattr lsetxattr fsetxattr"},
    {handle_removexattr, "removexattr lremovexattr fremovexattr"},
    {handle_setxattrat, "setxattrat"},
    {handle_removexattrat, "removexattrat"},
    {handle_file_setattr, "file_setattr"},
    {handle_inode_flags, "ioctl"},
    {handle_execute, "execve execveat"},
    {handle_connect, "connect"},
    {handle_bind, "bind"},
    {handle_listen, "listen"},
    {handle_getsockname, "getsockname"},
    {handle_sendto, "sendto"},
    {handle_sendmsg, "sendmsg"},
    {handle_sendmmsg, "sendmmsg"},
    {handle_outside_process, "prlimit64 setpriority ioprio_set sched_setaffinity sched_setscheduler sched_setparam sched_setattr kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo fcntl"},
    {handle_shmget, "shmget"},
    {handle_semget, "semget"},
    {handle_msgget, "msgget"},
    {handle_shmat, "shmat"},
    {handle_semop, "semop"},
    {handle_semtimedop, "semtimedop"},
    {handle_msgsnd, "msgsnd"},
    {handle_msgrcv, "msgrcv"},
    {handle_shmctl, "shmctl"},
    {handle_semctl, "semctl"},
    {handle_msgctl, "msgctl"},
    {handle_mq_open, "mq_open"},
    {handle_mq_unlink, "mq_unlink"},
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

}  // namespace callgate::calls
