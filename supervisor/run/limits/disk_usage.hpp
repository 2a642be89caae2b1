// The bytes beneath directories, as `--disk` counts them.
//
// The target makes names, links, depth and sizes while they are counted. Links are not followed, no other
// file system is entered, and only directories are opened. Each file counts once whatever its names. A
// directory that cannot be listed, or that lies deeper than 256 levels, hides bytes: the sum says so.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace callgate::limits {

struct DiskUsage {
    std::uint64_t bytes = 0;  // st_blocks, stat(2)
    bool whole = true;        // no directory of this user's was left out
    std::uint64_t names = 0;
    std::uint64_t others = 0;  // bytes of those that are no regular files
};

/// Bytes at and beneath `roots`, which may overlap and need not exist.
[[nodiscard]] DiskUsage disk_usage(const std::vector<std::string>& roots);

/// Bytes in use on the file systems of the roots, whoever uses them.
[[nodiscard]] std::uint64_t used_around(const std::vector<std::string>& roots);

/// The devices that the roots lie on.
[[nodiscard]] std::vector<dev_t> devices_of(const std::vector<std::string>& roots);

}  // namespace callgate::limits
