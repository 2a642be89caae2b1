// The way from a path in a call to a pinned object and the name that rules are asked about.
//
// An attacker controls the path and, through siblings, the names on the way. Afterwards only the pin counts,
// and the path that the kernel gives for it. The pin is an O_PATH descriptor on the very object, or on the
// directory in which a name is to be made. A name that the pin no longer has (" (deleted)") is checked and
// never believed.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/calls/walk.hpp"

namespace callgate::calls {

/// An existing object.
struct Object {
    UniqueFd pin;  // O_PATH
    struct stat status {};
    std::string path;  // absolute and resolved; empty for an unnamed object
    /// It has no name left, or only unknown ones: only a default of allow allows it. While a name is being
    /// removed, `st_nlink` is 0 before the name is gone (vfs_rmdir, vfs_unlink), so it does not tell.
    bool unlinked = false;
    /// It never had a name in a file system: a pipe, socket, memfd or unnamed inode of the caller's tree.
    bool unnamed = false;
    bool in_procfs = false;

    [[nodiscard]] bool directory() const { return S_ISDIR(status.st_mode); }
    [[nodiscard]] bool symbolic_link() const { return S_ISLNK(status.st_mode); }
    /// Whether opening it may block or have effects of its own.
    [[nodiscard]] bool may_block() const {
        return S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
    }
};

/// A name in a pinned directory, existing or not.
struct Place {
    UniqueFd parent;   // O_PATH directory
    std::string leaf;  // with a trailing slash where the path had one; ".", ".." or "/" as such
    std::string path;  // parent's path + "/" + leaf, without trailing slash
    bool trailing_slash = false;
    /// The last component is ".", ".." or nothing: the kernel refuses every change there by itself.
    bool special = false;
    bool in_procfs = false;  // nothing can be created there

    /// The name without a trailing slash: for looking at what stands there, not at what it leads to.
    [[nodiscard]] std::string bare() const { return trailing_slash ? leaf.substr(0, leaf.size() - 1) : leaf; }
};

struct PathRequest {
    pid_t thread = 0;
    int base = -1;  // O_PATH handle that a relative (or scoped) path starts from; -1: none
    std::string_view path;
    Follow follow = Follow::yes;
    std::uint64_t resolve = 0;  // RESOLVE_*
    /// The guardian of a nested run: no magic link of a process beyond its tree is followed. 0: of the run.
    pid_t tree = 0;
};

/// The object that `request` reaches. Errors as the kernel gives them to the caller.
[[nodiscard]] Result<Object> resolve_object(const PathRequest& request);

/// The place of the last component, which is not followed: for mkdir, unlink, rename and the like.
[[nodiscard]] Result<Place> resolve_place(const PathRequest& request);

/// The same for the second path of a call, if the first led to `known` and both start at the same place.
/// Names that differ only in their last component lie in one directory, which is pinned once.
[[nodiscard]] Result<Place> resolve_place_beside(const Place& known, std::string_view known_path,
                                                 const PathRequest& request);

/// The place at which O_CREAT without O_EXCL would create: a dangling last link is followed. EEXIST if it
/// exists after all.
[[nodiscard]] Result<Place> resolve_creation(const PathRequest& request);

/// Fills status, path, unlinked and unnamed from the pin.
[[nodiscard]] Result<Object> describe(UniqueFd pin);

/// The text that the kernel writes for a pinned directory, whatever its length.
[[nodiscard]] Result<std::string> directory_path(int directory);

/// The number of the process in whose /proc directory `path` lies, or which it is; 0 if there is none.
[[nodiscard]] pid_t process_of_proc(std::string_view path);

/// Whether `path` lies in the /proc directory of this process, of a thread of it, or of the guardian.
[[nodiscard]] bool in_proc_of_callgate(std::string_view path, pid_t guardian);

/// Whether the kernel shows everybody what `path` holds: the /proc directory of a process or thread, the list
/// of threads, or one of some files. At each read the kernel hides the parts that the reader may not see
/// (fs/proc/array.c, base.c); the opener does not count. What else lies in a directory is judged by itself.
[[nodiscard]] bool is_shown_to_all(std::string_view path);

/// Whether `path` lies in the /proc directory of a process outside the tree (the guardian counts as inside).
/// The kernel lets the same user write several files there (oom_score_adj, coredump_filter) without asking
/// Landlock.
[[nodiscard]] bool in_proc_of_outside_process(std::string_view path, pid_t guardian);

}  // namespace callgate::calls
