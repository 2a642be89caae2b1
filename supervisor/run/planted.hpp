// Names beneath the work directory from which the user's own tools run code, and which a run made or changed.
//
// Found by a walk after the run's processes have ended, not from records: Landlock alone lets most files be
// written. An attacker has filled the tree. The walk follows no link, opens no file, and is bounded; a walk
// cut short says so, also where nothing was found. A change time cannot be set back by the run (clock_settime
// is closed to it).
#pragma once

#include <time.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate {

struct Planted {
    std::vector<std::string> paths;  // beneath the work directory; at most `max_planted_paths`
    std::size_t more = 0;            // found beyond them
    bool cut = false;                // not everything was looked at
};

inline constexpr std::size_t max_planted_paths = 5;

/// Names that changed not before `since` (CLOCK_REALTIME_COARSE, as file systems stamp), by their change time
/// (inode(7)). A directory that cannot be read counts as cut, unless it is another
/// user's. A path for which `held` is true is left out.
[[nodiscard]] Planted find_planted(const std::string& workdir, const timespec& since,
                                   const std::function<bool(const std::string& path)>& held);

/// Whether tools run code from a file of this path beneath the work directory. docs/threat-model.md, "Code
/// that you run afterwards", lists the same names.
[[nodiscard]] bool runs_later(std::string_view path);

/// The line of the footer, terminal-safe; "" if there is nothing to say.
[[nodiscard]] std::string planted_line(const Planted& planted);

}  // namespace callgate
