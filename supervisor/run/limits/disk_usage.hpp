// The bytes beneath directories, as `--disk` counts them.
//
// The target makes names, links, depth and sizes while they are counted. Links are not followed, no other
// file system is entered, and only directories are opened. Each file counts once whatever its names.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace callgate::limits {

/// Bytes on disk (st_blocks) at and beneath `roots`, which may overlap and need not exist. Empty if
/// directories lie deeper than 256 levels, because the sum would then hide bytes.
[[nodiscard]] std::optional<std::uint64_t> disk_usage(const std::vector<std::string>& roots);

/// The devices that the roots lie on.
[[nodiscard]] std::vector<dev_t> devices_of(const std::vector<std::string>& roots);

}  // namespace callgate::limits
