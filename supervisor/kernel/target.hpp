// What the kernel says of a stopped thread: handles on what it refers to, and facts from /proc/TID.
//
// Handles are opened before memory is read and `waiting` is asked afterwards (kernel-facts 24): from then on
// only the handles count, so a sibling that swaps a descriptor or the working directory changes nothing.
// Thread ids, not process ids: a thread may have its own descriptor table, working directory and umask.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "base/result.hpp"

namespace callgate::kernel {

/// "/proc/TID/<rest>" in a small buffer.
struct ProcPath {
    ProcPath(pid_t thread, const char* rest);
    char text[64];
};

/// An O_PATH handle on the thread's working directory. ESRCH, EACCES (not dumpable).
[[nodiscard]] Result<UniqueFd> working_directory(pid_t thread);

/// An O_PATH handle on what descriptor `number` of the thread refers to. EBADF where it has none.
[[nodiscard]] Result<UniqueFd> descriptor_pin(pid_t thread, int number);

/// A handle on the thread by which its descriptors can be taken (pidfd_open(2)). One that is not `lasting`
/// stands for it only while it waits for this answer.
struct ThreadHandle {
    UniqueFd fd;
    bool lasting = true;
};
[[nodiscard]] Result<ThreadHandle> thread_handle(pid_t thread);

/// The very open file description, by pidfd_getfd(2): shares offset, flags and socket with the thread. EBADF;
/// ESRCH.
[[nodiscard]] Result<UniqueFd> descriptor_copy(const UniqueFd& handle, int number);
[[nodiscard]] Result<UniqueFd> descriptor_copy(pid_t thread, int number);

struct Status {
    pid_t process = 0;  // thread group id
    pid_t parent = 0;
    pid_t tracer = 0;  // who traces it by ptrace(2); 0: nobody
    unsigned umask = 022;
    uid_t real_uid = 0, effective_uid = 0, fs_uid = 0;
    gid_t fs_gid = 0;
    std::string groups;         // supplementary, as the kernel lists them
    std::uint64_t pending = 0;  // signals: pending to the thread or its group, and not blocked
};
/// From /proc/TID/status (about 10 µs: only where something of it is needed).
[[nodiscard]] Result<Status> status(pid_t thread);

struct Identity {
    pid_t process = 0;
    pid_t parent = 0;
    std::uint64_t start_time = 0;
    int controlling_terminal = 0;  // tty_nr
};
/// From /proc/TID/stat and, for a thread that is no leader, its group's.
[[nodiscard]] Result<Identity> identity(pid_t thread);

/// Sends a signal to a thread that still waits for its answer: what the kernel would have sent it. A caller
/// that is gone gets none.
void signal_thread(pid_t thread, int signal);

/// The executable's path; empty where it cannot be read.
void executable(pid_t thread, std::string& into);

/// Whether the thread has as many descriptors open as RLIMIT_NOFILE lets it: what openat(2) answers with
/// EMFILE before it creates anything.
[[nodiscard]] bool descriptors_exhausted(pid_t thread);

/// Whether process `process` is a descendant of `ancestor`, by the chain of parents. False where it is gone.
[[nodiscard]] bool descends_from(pid_t process, pid_t ancestor);

/// Makes this thread's /proc/self/fd cheap to reach: a handle on it, opened once in the process.
[[nodiscard]] int own_descriptors();

/// "/proc/self/fd/N": the way to a descriptor of ours for calls that take paths; `number` is "N", beneath
/// own_descriptors().
struct PinPath {
    explicit PinPath(int fd);
    [[nodiscard]] const char* number() const { return text + sizeof prefix - 1; }

    static constexpr char prefix[] = "/proc/self/fd/";
    char text[32];
};

/// The path of what `fd` (ours) refers to, as the kernel names it, whatever its length. Errors of
/// readlink(2).
[[nodiscard]] Result<void> path_of(int fd, std::string& into);

}  // namespace callgate::kernel
