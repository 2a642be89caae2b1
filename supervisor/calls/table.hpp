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

/// Which calls are trapped only for processes other than the caller itself, judged by number.
enum class Scope : std::uint8_t { object, stranger };

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
    /// What it may be; it is trapped where one of them is contested (`Scope::stranger`: see filter_spec).
    rules::OperationSet operations;
    Handler handle;
    Performed performed;
    PathArgument first;
    PathArgument second;
    std::int8_t flags = -1;
    std::int8_t mode = -1;
    OpenFlags open = OpenFlags::none;
    Scope scope = Scope::object;
    /// Found by name when the table is first used; `no_number` where this architecture lacks the call.
    std::uint32_t number = no_number;
};

[[nodiscard]] std::span<const CallEntry> call_table();

/// The entry of a number or name, or null.
[[nodiscard]] const CallEntry* find_call(std::uint32_t number);
[[nodiscard]] const CallEntry* find_call(std::string_view name);

// Handlers, one file per family.
void handle_open(CallContext&);         // open.cpp: open, openat, creat
void handle_openat2(CallContext&);      // open.cpp
void handle_mkdir(CallContext&);        // create.cpp
void handle_mknod(CallContext&);        // create.cpp
void handle_symlink(CallContext&);      // create.cpp
void handle_unlink(CallContext&);       // remove.cpp
void handle_rmdir(CallContext&);        // remove.cpp
void handle_rename(CallContext&);       // move.cpp
void handle_link(CallContext&);         // move.cpp
void handle_truncate(CallContext&);     // metadata.cpp
void handle_chmod(CallContext&);        // metadata.cpp
void handle_chown(CallContext&);        // metadata.cpp
void handle_times(CallContext&);        // metadata.cpp
void handle_fchmod(CallContext&);       // metadata.cpp
void handle_fchown(CallContext&);       // metadata.cpp
void handle_execute(CallContext&);      // execute.cpp
void handle_connect(CallContext&);      // connect.cpp
void handle_bind(CallContext&);         // bind.cpp
void handle_listen(CallContext&);       // bind.cpp
void handle_getsockname(CallContext&);  // bind.cpp: the name of a socket that was bound on behalf
void handle_sendto(CallContext&);       // send.cpp
void handle_sendmsg(CallContext&);      // send.cpp
void handle_sendmmsg(CallContext&);     // send.cpp
void handle_stranger(CallContext&);     // stranger.cpp

}  // namespace callgate::calls
