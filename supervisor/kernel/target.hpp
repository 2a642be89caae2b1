// Facts about a stopped thread: handles on the objects that it refers to, and values from /proc/TID.
//
// Handles are opened before memory is read, and `waiting` is asked afterwards (docs/dev/kernel-facts.md 24).
// From then on only the handles count, so a sibling that swaps a descriptor or the working directory changes
// nothing. Functions take thread ids, not process ids: a thread may have its own descriptor table, working
// directory and umask.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate::kernel {

/// The beginning of each name in the procfs that shows the callers by the numbers of notifications: "/proc/".
/// It is "" in a supervisor of a container, whose threads have such a procfs as their working directory
/// (container/place.hpp). The container's own /proc has other numbers. Set before there are threads.
extern const char* proc_root;

/// "/proc/TID/<rest>" in a small buffer.
struct ProcPath {
    ProcPath(pid_t thread, const char* rest);
    char text[64];
};

/// An O_PATH handle on the thread's working directory. Errors: ESRCH, EACCES (not dumpable).
[[nodiscard]] Result<UniqueFd> working_directory(pid_t thread);

/// An O_PATH handle on the object behind descriptor `number` of the thread. EBADF if it has none.
[[nodiscard]] Result<UniqueFd> descriptor_pin(pid_t thread, int number);

/// The same of a descriptor by which an object can be changed: an O_PATH handle is none (EBADF), as for the
/// kernel.
[[nodiscard]] Result<UniqueFd> open_descriptor_pin(pid_t thread, int number);

/// Status flags, access mode and O_CLOEXEC of the thread's descriptor. EBADF if it has none.
[[nodiscard]] Result<int> descriptor_flags(pid_t thread, int number);

/// A pidfd_open(2) handle for taking the thread's descriptors. If it is not `lasting`, it is valid only while
/// the thread waits for this answer.
struct ThreadHandle {
    UniqueFd fd;
    bool lasting = true;
};
[[nodiscard]] Result<ThreadHandle> thread_handle(pid_t thread);

/// A copy of a descriptor, by pidfd_getfd(2): it shares offset, flags and socket with the thread. Errors:
/// EBADF, ESRCH. Where a profile refuses that call, by thread: the kept copy of a socket (kept_sockets.hpp).
[[nodiscard]] Result<UniqueFd> descriptor_copy(const UniqueFd& handle, int number);
[[nodiscard]] Result<UniqueFd> descriptor_copy(pid_t thread, int number);

/// Calls `visit(number, inode)` for each socket among the process's descriptors, until it returns true.
void each_socket(pid_t process, const std::function<bool(int, ino_t)>& visit);

/// /proc/TID/status, whole: what follows the list of groups too, which the process may have made long. It
/// raises no capability.
[[nodiscard]] Result<std::string> status_text(pid_t thread);

struct Status {
    pid_t process = 0;  // thread group id
    pid_t parent = 0;
    pid_t tracer = 0;  // the thread that traces it by ptrace(2); 0: none
    unsigned umask = 022;
    uid_t real_uid = 0, effective_uid = 0, saved_uid = 0;
    gid_t real_gid = 0, effective_gid = 0, saved_gid = 0;
    /// Signals that the thread will handle or end by: pending to it, or to its process if no other thread
    /// takes them first. Others must not end its call: it would return ERESTARTSYS (docs/dev/kernel-facts.md
    /// 10b).
    std::uint64_t pending = 0;
};
/// From /proc/TID/status. This takes about 10 µs: call it only if needed.
[[nodiscard]] Result<Status> status(pid_t thread);

/// Numbers of a thread in its own PID namespace, as its own /proc has them.
struct OwnNumbers {
    pid_t process = 0, thread = 0;
};
[[nodiscard]] Result<OwnNumbers> own_numbers(pid_t thread);

/// Whether the process lies in a PID namespace beneath that of the procfs that is read. True if it is gone.
[[nodiscard]] bool lies_in_pid_namespace_beneath(pid_t process);

struct Identity {
    pid_t process = 0;
    pid_t parent = 0;
    std::uint64_t start_time = 0;
    int controlling_terminal = 0;  // tty_nr
};
/// From /proc/TID/stat and, for a thread that is no leader, its group's.
[[nodiscard]] Result<Identity> identity(pid_t thread);

/// Sends the signal that the kernel would have sent to a thread, which still waits for its answer. A caller
/// that is gone gets none.
void signal_thread(pid_t thread, int signal);

/// The executable's path; empty if it cannot be read.
void executable(pid_t thread, std::string& into);

/// The text that the kernel writes for the working directory (AT_FDCWD) or the thread's descriptor `number`;
/// empty if it cannot be read. It may be no path, and that of another object by now.
void directory_name(pid_t thread, int number, std::string& into);

enum class Limit : std::uint8_t { open_files, file_size };
/// A soft limit of the thread's; nothing if it cannot be read. The kernel tells limits of another user's
/// process only in /proc.
[[nodiscard]] std::optional<rlim_t> soft_limit(pid_t thread, Limit limit);

/// Whether the thread has as many descriptors open as RLIMIT_NOFILE permits. openat(2) then answers EMFILE
/// before it creates anything.
[[nodiscard]] bool descriptors_exhausted(pid_t thread);

/// Whether process `process` is a descendant of `ancestor`, by the chain of parents. False if it is gone.
[[nodiscard]] bool descends_from(pid_t process, pid_t ancestor);

/// A handle on this thread's /proc/self/fd, opened once in the process, for fast access.
[[nodiscard]] int own_descriptors();

/// "/proc/self/fd/N": names a descriptor of ours for calls that take paths. `number` is "N", for use beneath
/// own_descriptors().
struct PinPath {
    explicit PinPath(int fd);
    [[nodiscard]] const char* number() const { return text + begin_; }

    char text[32];

private:
    std::size_t begin_;
};

/// The path of the object behind `fd` (ours), as the kernel names it, of any length. Errors: those of
/// readlink(2).
[[nodiscard]] Result<void> path_of(int fd, std::string& into);

}  // namespace callgate::kernel
