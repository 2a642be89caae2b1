// Removes a directory with everything in it, whatever the target left there.
//
// The target controls names, depth, modes and links. No symbolic link is followed, no path string is built,
// and three descriptors are enough for any depth.
#pragma once

#include <string>

#include "base/result.hpp"

namespace callgate {

/// Removes `directory` (absolute). ENOENT is success. If something cannot be removed, the rest is removed all
/// the same and the first error is returned. A symbolic link in its place is removed, never followed, and is
/// an error too: whatever it leads to, no later program finds it there.
[[nodiscard]] Result<void> remove_tree(const std::string& directory);

}  // namespace callgate
