// The flags of open(2) and openat2(2) that callgate knows. A kernel may know more (open.cpp).
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "supervisor/calls/arguments.hpp"

namespace callgate::calls {

// Linux 7.2 has these (docs/dev/kernel-facts.md 44, 45).
inline constexpr int empty_path_flag = 1 << 26;  // O_EMPTYPATH: "" is the descriptor's object
inline constexpr std::uint64_t regular_only_flag = std::uint64_t{1} << 32U;  // OPENAT2_REGULAR
inline constexpr int not_regular_error = 134;                                // EFTYPE

inline constexpr int large_file =
    enforce::native_architecture == enforce::Architecture::x86_64 ? 0100000 : 0400000;  // glibc says 0
inline constexpr int known_open_flags =
    O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC | O_ASYNC | O_DIRECT |
    large_file | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_PATH | O_TMPFILE | empty_path_flag;
inline constexpr std::uint64_t known_resolve_flags = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS |
                                                     RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT |
                                                     RESOLVE_CACHED;

/// Fills `into` with the access mode and every known flag of `flags`; unknown bits are left out.
void name_open_flags(int flags, std::vector<std::string_view>& into);

}  // namespace callgate::calls
