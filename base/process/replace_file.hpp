// Replaces a file as a whole: a reader sees either the old content or all of the new.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace callgate {

/// Whether the new content is on the disk when it replaces the old. `later`: after a crash of the machine the
/// file may be empty or cut.
enum class Sync { before, later };

/// Writes `text` to a file of a unique name beside `path` and renames it to `path`. It follows no links. The
/// new file has `mode`, whatever the umask. Returns false with the errno of the failure; the old file is then
/// left as it was. Any thread may call it.
[[nodiscard]] bool replace_file(const std::string& path, std::string_view text, mode_t mode,
                                Sync sync = Sync::before);

}  // namespace callgate
