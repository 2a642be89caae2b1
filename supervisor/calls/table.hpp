// The one table of mediated system calls: name, operations, arguments, and the function that handles each.
// What becomes of all others stands in classes.hpp.
//
// It drives the filter (filter_spec), the dispatch of notifications, the names in the log and
// docs/system-calls.md. Adding a call is one entry and, where needed, one handler.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "rules/operation.hpp"
#include "supervisor/calls/call_names.hpp"

namespace callgate::calls {

struct CallContext;

/// Where a path is among the arguments: -1 stands for absent (`directory`: relative to the working
/// directory).
struct PathArgument {
    std::int8_t directory = -1;
    std::int8_t path = -1;
};

/// How a call's open flags can be seen by the filter.
enum class OpenFlags : std::uint8_t {
    none,        // it is no open
    argument,    // in the register `flags`
    write_only,  // creat
    in_memory,   // openat2: the filter sees nothing
};

/// What a call is trapped for, where no rule speaks of it.
enum class Scope : std::uint8_t {
    object,       // a rule does
    stranger,     // processes other than the caller itself, by number
    user_object,  // objects that the whole user shares (System V, message queues): always
};

/// Who performs the call once it was judged and allowed.
enum class Performed : std::uint8_t {
    on_behalf,  // the supervisor, always: on what was judged
    either,     // the kernel where Landlock and the filter alone permit all that it could then do, else on
                // behalf
    by_kernel,  // the kernel: nothing but scalars decides, or the result is judged again
};

using Handler = void (*)(CallContext&);

struct CallEntry {
    std::string_view name;
    /// What it may be; it is trapped where one of them is contested (other scopes: see filter_spec).
    rules::OperationSet operations;
    Handler handle;
    Performed performed;
    PathArgument first;
    PathArgument second;
    std::int8_t flags = -1;
    std::int8_t mode = -1;
    OpenFlags open = OpenFlags::none;
    Scope scope = Scope::object;
    /// On this machine; `no_number` where its architecture lacks the call.
    std::uint32_t number = no_number;
};

[[nodiscard]] std::span<const CallEntry> call_table();

/// The entry of a number or name, or null.
[[nodiscard]] const CallEntry* find_call(std::uint32_t number);
[[nodiscard]] const CallEntry* find_call(std::string_view name);

// Handlers, one file per family.

// open.cpp
void handle_open(CallContext&);  // open, openat, creat
void handle_openat2(CallContext&);

// create.cpp
void handle_mkdir(CallContext&);
void handle_mknod(CallContext&);
void handle_symlink(CallContext&);

// remove.cpp
void handle_unlink(CallContext&);
void handle_rmdir(CallContext&);

// move.cpp
void handle_rename(CallContext&);
void handle_link(CallContext&);

// metadata.cpp
void handle_truncate(CallContext&);
void handle_chmod(CallContext&);
void handle_chown(CallContext&);
void handle_times(CallContext&);
void handle_fchmod(CallContext&);
void handle_fchown(CallContext&);

// attributes.cpp
void handle_setxattr(CallContext&);     // setxattr, lsetxattr, fsetxattr
void handle_removexattr(CallContext&);  // removexattr, lremovexattr, fremovexattr
void handle_setxattrat(CallContext&);
void handle_removexattrat(CallContext&);
void handle_file_setattr(CallContext&);
void handle_inode_flags(CallContext&);  // ioctl FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR

// execute.cpp
void handle_execute(CallContext&);

// connect.cpp
void handle_connect(CallContext&);

// bind.cpp
void handle_bind(CallContext&);
void handle_listen(CallContext&);
void handle_getsockname(CallContext&);  // the name of a socket that was bound on behalf

// send.cpp
void handle_sendto(CallContext&);
void handle_sendmsg(CallContext&);
void handle_sendmmsg(CallContext&);

// stranger.cpp
void handle_stranger(CallContext&);

// system_v_use.cpp
void handle_shmget(CallContext&);
void handle_semget(CallContext&);
void handle_msgget(CallContext&);
void handle_shmat(CallContext&);
void handle_semop(CallContext&);
void handle_semtimedop(CallContext&);
void handle_msgsnd(CallContext&);
void handle_msgrcv(CallContext&);

// system_v_control.cpp
void handle_shmctl(CallContext&);
void handle_semctl(CallContext&);
void handle_msgctl(CallContext&);

// message_queues.cpp
void handle_mq_open(CallContext&);
void handle_mq_unlink(CallContext&);

}  // namespace callgate::calls
