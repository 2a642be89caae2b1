// Opening log files so that nobody else's object is written to: a directory that is ours alone, new files
// only, no links; and a file that is continued, its torn last line set aside.
//
// Others may have planted links, FIFOs or directories at these names; the target never has (invariant 9).
// Every function gives the errno of the call that failed, in system_category.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/audit/write/chain.hpp"

namespace callgate::audit {

/// Opens `path` as a directory of mode 0700, making it and its parents (0700) where absent. ELOOP or ENOTDIR
/// where the last component is a link or no directory; EPERM where it is not ours or others may write to it.
[[nodiscard]] Result<UniqueFd> open_private_directory(const std::string& path);

/// A new file, 0600, for appending; EEXIST where the name is taken by anything. `directory` may be AT_FDCWD.
[[nodiscard]] Result<UniqueFd> create_log(int directory, const std::string& name);

struct ContinuedLog {
    UniqueFd fd;
    /// Bytes of a torn last line that were moved to `set_aside`.
    std::uint64_t torn_bytes = 0;
    std::string set_aside;
    /// The head of the chain so far: the last whole line's.
    ChainHash head = ChainHash::none();
};

/// An existing log, for appending. ELOOP for a link, EINVAL for what is no regular file or does not begin as
/// a log does, EPERM where it is not ours or others may write to it, EWOULDBLOCK while another run writes to
/// it.
[[nodiscard]] Result<ContinuedLog> continue_log(const std::string& path);

}  // namespace callgate::audit
