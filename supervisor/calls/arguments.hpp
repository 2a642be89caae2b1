// Reading the path arguments of a call and resolving them, with the errno the kernel would give.
#pragma once

#include <fcntl.h>

#include <string>

#include "base/unique_fd.hpp"
#include "supervisor/calls/call.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace callgate::calls {

/// A path argument as the caller gave it, read once, with a handle on the directory at which it starts.
struct GivenPath {
    std::string* text = nullptr;       // in the thread's buffers
    UniqueFd base;                     // valid for relative paths
    std::optional<int> directory_fd;   // as given, if it was used
    std::string* directory = nullptr;  // for the record: the starting directory's path, if it was used
    pid_t tree = 0;                    // PathRequest::tree

    [[nodiscard]] PathRequest request(pid_t thread, Follow follow, std::uint64_t resolve = 0) const {
        return {thread, base.get(), *text, follow, resolve, tree};
    }
};

/// Reads argument `argument` of the call into `text`. Errors: EFAULT, ENAMETOOLONG; EBADF and ENOTDIR of the
/// directory descriptor; ESRCH where the caller is gone. An empty path is ENOENT unless it is allowed,
/// where the base is the descriptor itself; `or_null` takes a null pointer for an empty path.
enum class EmptyPath : std::uint8_t { refuse, allow, or_null };
/// Whether the starting directory is taken: by `take_base`, or of an absolute path too (RESOLVE_BENEATH,
/// RESOLVE_IN_ROOT).
enum class TakeBase : std::uint8_t { later, if_relative, always };
[[nodiscard]] Result<GivenPath> read_path_argument(Call& context, const PathArgument& argument,
                                                   std::string& text, std::string& directory,
                                                   EmptyPath empty = EmptyPath::refuse,
                                                   TakeBase take = TakeBase::if_relative);
[[nodiscard]] Result<void> take_base(Call& context, const PathArgument& argument, GivenPath& given,
                                     std::string& directory, TakeBase take);

/// The number of the directory at which a relative path starts, or AT_FDCWD.
[[nodiscard]] inline int directory_of(const Call& context, const PathArgument& argument) {
    return argument.directory < 0 ? AT_FDCWD : context.integer(argument.directory);
}

/// The meaning of a call's AT_ flags for its path.
[[nodiscard]] inline Follow follow_of(int flags) {
    return (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Follow::no : Follow::yes;
}
[[nodiscard]] inline EmptyPath empty_of(int flags) {
    return (flags & AT_EMPTY_PATH) != 0 ? EmptyPath::allow : EmptyPath::refuse;
}

/// The record's view of one path argument. `object`: the path of what it led to, if the directory's may be
/// known already.
[[nodiscard]] audit::CallInput input_of(const GivenPath& given, std::string_view object = {});
/// The same of a path that `resolve_place` led to `place`, without following its last name. So one name alone
/// starts in the place's own directory, whose path is known.
[[nodiscard]] audit::CallInput input_of(const GivenPath& given, const Place& place);

/// Identity for the record.
[[nodiscard]] inline audit::FileIdentity identity_of(const struct stat& status) {
    return {status.st_ino, status.st_dev};
}

/// Answers a call whose path leads nowhere, or that the kernel refuses by itself. If Landlock alone holds the
/// call, it is continued and the kernel gives its own errno; otherwise the answer is `error`. A name may
/// appear or go before a continued call looks at it. Landlock would then refuse unrecorded what a rule
/// allows, so errors of names are answered. Without a Landlock domain every error is.
void pass_errno(Call& context, int error, bool may_continue);

}  // namespace callgate::calls
