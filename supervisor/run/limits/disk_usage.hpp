// How many bytes lie beneath directories: what `--disk` counts.
//
// The target makes names, links, depth and sizes while they are counted: links are not followed, no other
// file system is entered, each file counts once whatever its names, and only directories are opened.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace callgate::limits {

/// Bytes on disk (st_blocks) at and beneath `roots`, which may overlap and need not exist. Nothing where
/// directories lie deeper than can be followed (256 levels): then the sum would hide bytes.
[[nodiscard]] std::optional<std::uint64_t> disk_usage(const std::vector<std::string>& roots);

/// The devices that the roots lie on.
[[nodiscard]] std::vector<dev_t> devices_of(const std::vector<std::string>& roots);

}  // namespace callgate::limits
