// What the rules must know of this machine and user: files as they are at start, places, names.
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

/// Directories of cli.md, *Places*. Each absolute and canonical where it exists.
struct Places {
    std::string home;    // HOME, else the passwd entry; "" where neither is known
    std::string config;  // $XDG_CONFIG_HOME/callgate, else ~/.config/callgate
    std::string state;   // $XDG_STATE_HOME/callgate, else ~/.local/state/callgate
    std::string
        runtime;  // $XDG_RUNTIME_DIR/callgate, else /run/user/UID/callgate if ours, else /tmp/callgate-UID
    std::string binary;  // this program
    /// `canonical`, with what it has learned about this machine while these places were found.
    std::function<std::string(const std::string&)> canonical = nullptr;
};
[[nodiscard]] Places find_places();
/// Where this user's files of one boot are, if the machine keeps such a place: `find_places` looks there.
[[nodiscard]] std::string user_runtime_directory();

/// callgate's own environment, "NAME=value".
[[nodiscard]] std::vector<std::string> current_environment();

/// `path` (absolute) without symbolic links, "." and ".."; what does not exist is kept as it is written, and
/// a link to it is followed. Beneath /proc nothing is followed: those links answer for the process that asks.
[[nodiscard]] std::string canonical(const std::string& path);

/// LoadContext::read_file: regular files only, never waits for a FIFO or a device. Index 1: why not.
[[nodiscard]] std::variant<std::string, std::string> read_regular_file(const std::string& path,
                                                                       std::size_t limit);

/// A LoadContext whose functions read this machine. `tree` must outlive it.
[[nodiscard]] rules::LoadContext host_context(const Places& places, const std::string& workdir,
                                                 const std::string& tmp, const rules::FileTree& tree);

/// Rules of invariant 9 for these places and the rule files that were loaded: no read, write, connect on
/// state, runtime and pending-rule directories, no write on rule files and binary.
[[nodiscard]] std::vector<rules::Rule> built_in_rules(const Places& places,
                                                      const std::vector<std::string>& rule_files,
                                                      const std::vector<std::string>& own_files);

}  // namespace callgate
