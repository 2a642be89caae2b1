// Path resolution component by component, as the kernel would do it for the caller.
//
// Needed for paths that one openat2(2) of our own would resolve to *our* objects. These lead through
// /proc/self, /proc/thread-self, links to them, and the magic links beneath /proc/PID. Each step is an O_PATH
// open of one name without following, so every object on the way is pinned while it is looked at. An attacker
// controls the path and may rename and swap links between any two steps: whatever is reached is judged by its
// own name afterwards.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate::calls {

/// Whether a symbolic link as last component is followed.
enum class Follow : std::uint8_t { no, yes };

struct WalkOptions {
    pid_t thread = 0;  // whose /proc/self, /proc/thread-self
    Follow follow = Follow::yes;
    std::uint64_t resolve = 0;  // RESOLVE_* of openat2(2)
    pid_t tree = 0;             // PathRequest::tree
};

struct Walked {
    /// The object; not valid where the last component does not exist (all others do).
    UniqueFd object;
    /// The directory that holds the last component, and its name there. After a magic link the parent is not
    /// valid.
    UniqueFd parent;
    std::string leaf;
    bool trailing_slash = false;
};

[[nodiscard]] bool in_procfs(int fd);

/// Resolves `path` from `base` (O_PATH directory; ignored for an absolute path). Errors as
/// path_resolution(7): ENOENT (not for the last component), ENOTDIR, ELOOP, EACCES, EXDEV, ENAMETOOLONG.
[[nodiscard]] Result<Walked> walk(int base, std::string_view path, const WalkOptions& options);

}  // namespace callgate::calls
