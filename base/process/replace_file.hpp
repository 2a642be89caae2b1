// A file that is replaced as a whole: whoever reads it sees what was there before, or all of the new.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace callgate {

/// Writes `text` to a file of a name of its own beside `path`, to the disk too, and gives it that name; links
/// are not followed. `mode` is the new file's, whatever the umask. False, with errno of what failed, where
/// the old one is left as it was. Any thread.
[[nodiscard]] bool replace_file(const std::string& path, std::string_view text, mode_t mode);

}  // namespace callgate
