// Tells the rules about this machine and user: files as they are at start, directories, names.
//
// The pure layers (rules/) take these as values and functions; tests inject others.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "rules/load/loader.hpp"
#include "supervisor/host/file_tree.hpp"

namespace callgate {

/// The directories of docs/cli.md, *Places*. Each is absolute, and canonical where it exists.
struct Places {
    std::string home;    // HOME, else the passwd entry; "" where neither is known
    std::string config;  // $XDG_CONFIG_HOME/callgate, else ~/.config/callgate
    std::string state;   // $XDG_STATE_HOME/callgate, else ~/.local/state/callgate
    std::string
        runtime;  // $XDG_RUNTIME_DIR/callgate, else /run/user/UID/callgate if ours, else /tmp/callgate-UID
    std::string binary;  // this program
    /// `canonical`, which remembers the names that it has seen while these directories were looked up.
    std::function<std::string(const std::string&)> canonical = nullptr;
};
[[nodiscard]] Places find_places();
/// The directory for this user's files of one boot, whether it exists or not. `find_places` looks there.
[[nodiscard]] std::string user_runtime_directory();

/// callgate's own environment, "NAME=value".
[[nodiscard]] std::vector<std::string> current_environment();

/// `path` (absolute) without symbolic links, "." and "..". Names that do not exist stay as they are, and
/// links to them are followed. No link beneath /proc is followed: its target depends on the process that
/// asks.
[[nodiscard]] std::string canonical(const std::string& path);

/// LoadContext::read_file. Reads regular files only, and never waits for a FIFO or a device. Index 1 says why
/// a file cannot be read.
[[nodiscard]] std::variant<std::string, std::string> read_regular_file(const std::string& path,
                                                                       std::size_t limit);

/// Makes a LoadContext whose functions read this machine. `tree` must outlive it.
[[nodiscard]] rules::LoadContext host_context(const Places& places, const std::string& workdir,
                                              const std::string& tmp, const rules::FileTree& tree);

/// Makes the rules of invariant 9 for these directories and the rule files that were loaded. They deny reads,
/// writes and connects in the state, runtime and pending-rule directories, and writes to rule files and
/// binary.
[[nodiscard]] std::vector<rules::Rule> built_in_rules(const Places& places,
                                                      const std::vector<std::string>& rule_files,
                                                      const std::vector<std::string>& own_files);

}  // namespace callgate
