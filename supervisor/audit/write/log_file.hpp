// Opens log files so that no object of another user is written to. A new log is a new file in a directory
// that is ours alone, never reached through a link. An existing log is continued after its torn last line is
// set aside.
//
// Others may have put links, FIFOs or directories at these names; the target never has
// (docs/dev/architecture.md, invariant 9). Every function returns the errno of the call that failed, in
// system_category.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/audit/write/chain.hpp"

namespace callgate::audit {

/// Opens `path` as a directory of mode 0700, and makes it and its parents (0700) if they are absent. ELOOP or
/// ENOTDIR: the last component is a link or no directory. EPERM: the directory is not ours, or others may
/// write to it.
[[nodiscard]] Result<UniqueFd> open_private_directory(const std::string& path);

/// The bytes at which a log ends its run without --audit-limit: half of what is free at the start, and never
/// less than 1 GiB.
[[nodiscard]] constexpr std::uint64_t default_log_limit(std::uint64_t free_bytes) {
    constexpr std::uint64_t least = 1ULL << 30U;
    return free_bytes / 2 > least ? free_bytes / 2 : least;
}

/// Makes a new file, 0600, for appending. EEXIST: the name is taken by anything. `directory` may be AT_FDCWD.
[[nodiscard]] Result<UniqueFd> create_log(int directory, const std::string& name);

struct ContinuedLog {
    UniqueFd fd;
    /// Bytes of a torn last line that were moved to `set_aside`.
    std::uint64_t torn_bytes = 0;
    std::string set_aside;
    /// The head of the chain so far: the hash of the last whole line.
    ChainHash head = ChainHash::none();
};

/// Opens an existing log for appending. ELOOP: it is a link. EINVAL: it is no regular file or does not begin
/// as a log does. EPERM: it is not ours, or others may write to it. EWOULDBLOCK: another run writes to it.
[[nodiscard]] Result<ContinuedLog> continue_log(const std::string& path);

}  // namespace callgate::audit
