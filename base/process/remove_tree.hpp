// Removes a directory with everything in it, whatever the target left there.
//
// The target controls names, depth, modes and links. No symbolic link is followed, no path string is built,
// and three descriptors are enough for any depth.
#pragma once

#include <string>

#include "base/result.hpp"

namespace callgate {

/// Removes `directory` (absolute, not a symbolic link). ENOENT is success. If something cannot be removed,
/// the rest is removed all the same and the first error is returned.
[[nodiscard]] Result<void> remove_tree(const std::string& directory);

}  // namespace callgate
