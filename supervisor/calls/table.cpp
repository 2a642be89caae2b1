#include "supervisor/calls/table.hpp"

#include <algorithm>
#include <array>

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::OperationSet;

constexpr OperationSet opens{Operation::read, Operation::modify, Operation::create};
constexpr OperationSet moves{Operation::create, Operation::remove};
constexpr OperationSet metadata = Operation::metadata;

/// A call on processes by number.
constexpr CallEntry on_process(std::string_view name, Performed performed = Performed::by_kernel) {
    return {name, {}, handle_stranger, performed, {}, {}, -1, -1, OpenFlags::none, Scope::stranger};
}

/// A call on objects that the whole user shares.
constexpr CallEntry on_user_object(std::string_view name, Handler handle, Performed performed) {
    return {name, {}, handle, performed, {}, {}, -1, -1, OpenFlags::none, Scope::user_object};
}

// Columns: name, operations, handler, who performs it, {directory, path} of the first and second path, flags,
// mode. Calls that only one architecture has stand here as any other.
constexpr auto entries = std::to_array<CallEntry>({
    {"open", opens, handle_open, Performed::either, {-1, 0}, {}, 1, 2, OpenFlags::argument},
    {"creat", opens, handle_open, Performed::either, {-1, 0}, {}, -1, 1, OpenFlags::write_only},
    {"openat", opens, handle_open, Performed::either, {0, 1}, {}, 2, 3, OpenFlags::argument},
    {"openat2", opens, handle_openat2, Performed::either, {0, 1}, {}, -1, -1, OpenFlags::in_memory},

    {"mkdir", Operation::create, handle_mkdir, Performed::either, {-1, 0}, {}, -1, 1},
    {"mkdirat", Operation::create, handle_mkdir, Performed::either, {0, 1}, {}, -1, 2},
    {"mknod", Operation::create, handle_mknod, Performed::either, {-1, 0}, {}, -1, 1},
    {"mknodat", Operation::create, handle_mknod, Performed::either, {0, 1}, {}, -1, 2},
    {"symlink", Operation::create, handle_symlink, Performed::either, {-1, 0}, {-1, 1}},
    {"symlinkat", Operation::create, handle_symlink, Performed::either, {-1, 0}, {1, 2}},
    {"unlink", Operation::remove, handle_unlink, Performed::either, {-1, 0}, {}},
    {"unlinkat", Operation::remove, handle_unlink, Performed::either, {0, 1}, {}, 2},
    {"rmdir", Operation::remove, handle_rmdir, Performed::either, {-1, 0}, {}},
    {"rename", moves, handle_rename, Performed::on_behalf, {-1, 0}, {-1, 1}},
    {"renameat", moves, handle_rename, Performed::on_behalf, {0, 1}, {2, 3}},
    {"renameat2", moves, handle_rename, Performed::on_behalf, {0, 1}, {2, 3}, 4},
    {"link", Operation::create, handle_link, Performed::on_behalf, {-1, 0}, {-1, 1}},
    {"linkat", Operation::create, handle_link, Performed::on_behalf, {0, 1}, {2, 3}, 4},
    {"truncate", Operation::modify, handle_truncate, Performed::either, {-1, 0}, {}},

    {"chmod", metadata, handle_chmod, Performed::on_behalf, {-1, 0}, {}, -1, 1},
    {"fchmodat", metadata, handle_chmod, Performed::on_behalf, {0, 1}, {}, -1, 2},
    {"fchmodat2", metadata, handle_chmod, Performed::on_behalf, {0, 1}, {}, 3, 2},
    {"fchmod", metadata, handle_fchmod, Performed::on_behalf, {}, {}},
    {"chown", metadata, handle_chown, Performed::on_behalf, {-1, 0}, {}},
    {"lchown", metadata, handle_chown, Performed::on_behalf, {-1, 0}, {}},
    {"fchownat", metadata, handle_chown, Performed::on_behalf, {0, 1}, {}, 4},
    {"fchown", metadata, handle_fchown, Performed::on_behalf, {}, {}},
    {"utime", metadata, handle_times, Performed::on_behalf, {-1, 0}, {}},
    {"utimes", metadata, handle_times, Performed::on_behalf, {-1, 0}, {}},
    {"futimesat", metadata, handle_times, Performed::on_behalf, {0, 1}, {}},
    {"utimensat", metadata, handle_times, Performed::on_behalf, {0, 1}, {}, 3},
    {"setxattr", metadata, handle_setxattr, Performed::on_behalf, {-1, 0}, {}},
    {"lsetxattr", metadata, handle_setxattr, Performed::on_behalf, {-1, 0}, {}},
    {"fsetxattr", metadata, handle_setxattr, Performed::on_behalf, {}, {}},
    {"setxattrat", metadata, handle_setxattrat, Performed::on_behalf, {0, 1}, {}, 2},
    {"removexattr", metadata, handle_removexattr, Performed::on_behalf, {-1, 0}, {}},
    {"lremovexattr", metadata, handle_removexattr, Performed::on_behalf, {-1, 0}, {}},
    {"fremovexattr", metadata, handle_removexattr, Performed::on_behalf, {}, {}},
    {"removexattrat", metadata, handle_removexattrat, Performed::on_behalf, {0, 1}, {}, 2},
    {"file_setattr", metadata, handle_file_setattr, Performed::on_behalf, {0, 1}, {}, 4},
    {"ioctl", metadata, handle_inode_flags, Performed::on_behalf, {}, {}},

    {"execve", Operation::execute, handle_execute, Performed::by_kernel, {-1, 0}, {}},
    {"execveat", Operation::execute, handle_execute, Performed::by_kernel, {0, 1}, {}, 4},

    {"connect", Operation::connect, handle_connect, Performed::on_behalf, {}, {}},
    {"bind", Operation::bind, handle_bind, Performed::either, {}, {}},
    {"listen", Operation::bind, handle_listen, Performed::either, {}, {}},
    {"getsockname", Operation::bind, handle_getsockname, Performed::either, {}, {}},
    {"sendto", Operation::connect, handle_sendto, Performed::on_behalf, {}, {}},
    {"sendmsg", Operation::connect, handle_sendmsg, Performed::on_behalf, {}, {}},
    {"sendmmsg", Operation::connect, handle_sendmmsg, Performed::on_behalf, {}, {}},

    on_process("prlimit64"),
    on_process("setpriority", Performed::either),
    on_process("ioprio_set", Performed::either),
    on_process("sched_setaffinity"),
    on_process("sched_setscheduler"),
    on_process("sched_setparam"),
    on_process("sched_setattr"),
    on_process("kill", Performed::either),
    on_process("tkill"),
    on_process("tgkill"),
    on_process("rt_sigqueueinfo"),
    on_process("rt_tgsigqueueinfo"),
    on_process("fcntl"),

    on_user_object("shmget", handle_shmget, Performed::on_behalf),
    on_user_object("shmat", handle_shmat, Performed::by_kernel),
    on_user_object("shmctl", handle_shmctl, Performed::either),
    on_user_object("semget", handle_semget, Performed::on_behalf),
    on_user_object("semop", handle_semop, Performed::by_kernel),
    on_user_object("semtimedop", handle_semtimedop, Performed::by_kernel),
    on_user_object("semctl", handle_semctl, Performed::either),
    on_user_object("msgget", handle_msgget, Performed::on_behalf),
    on_user_object("msgsnd", handle_msgsnd, Performed::by_kernel),
    on_user_object("msgrcv", handle_msgrcv, Performed::by_kernel),
    on_user_object("msgctl", handle_msgctl, Performed::either),
    on_user_object("mq_open", handle_mq_open, Performed::on_behalf),
    on_user_object("mq_unlink", handle_mq_unlink, Performed::on_behalf),
});

/// The entries with their numbers on this machine.
constexpr auto table = [] {
    auto numbered = entries;
    for (CallEntry& entry : numbered) entry.number = call_number(entry.name);
    return numbered;
}();

/// For each number, one more than where its entry stands; 0: nowhere.
constexpr auto by_number = [] {
    static_assert(table.size() < 256);
    std::array<std::uint8_t, newest_call + 1> places{};
    for (std::size_t place = 0; place < table.size(); ++place)
        if (table[place].number < places.size())
            places[table[place].number] = static_cast<std::uint8_t>(place + 1);
    return places;
}();

}  // namespace

std::span<const CallEntry> call_table() { return table; }

const CallEntry* find_call(std::uint32_t number) {
    if (number >= by_number.size() || by_number[number] == 0) return nullptr;
    return &table[by_number[number] - 1U];
}

const CallEntry* find_call(std::string_view name) {
    const auto* const found =
        std::ranges::find_if(table, [name](const CallEntry& entry) { return entry.name == name; });
    return found == table.end() ? nullptr : found;
}

}  // namespace callgate::calls
