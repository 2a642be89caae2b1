// Tells the rules about this machine and user: files as they are at start, directories, names.
//
// The pure layers (rules/) take these as values and functions; tests inject others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rules/load/loader.hpp"
#include "supervisor/host/canonical.hpp"
#include "supervisor/host/file_tree.hpp"

namespace callgate {

/// The directories of docs/cli.md, *Places*. Each is absolute, and canonical where it exists.
struct Places {
    std::string home;               // HOME, else the passwd entry; "" where neither is known
    std::string account_home = "";  // of the passwd entry where HOME is another directory; else ""
    std::string config;             // $XDG_CONFIG_HOME/callgate, else ~/.config/callgate
    std::string state;              // $XDG_STATE_HOME/callgate, else ~/.local/state/callgate
    std::string
        runtime;  // $XDG_RUNTIME_DIR/callgate, else /run/user/UID/callgate if ours, else /tmp/callgate-UID
    std::string homes;         // $XDG_DATA_HOME/callgate/homes: lasting homes, one for each work directory
    std::string binary;        // this program
    FollowedLinks links = {};  // on the way to home, config, state and runtime, and in config
    /// A run may write neither links of config and state nor what they lead to.
    struct Linked {
        std::string name, real;  // canonical but for the link; canonical
    };
    std::vector<Linked> linked = {};
    /// `canonical`, which remembers the names that it has seen while these directories were looked up.
    std::function<std::string(const std::string&)> canonical = nullptr;
};
[[nodiscard]] Places find_places();
/// The directory for this user's files of one boot, whether it exists or not. `find_places` looks there.
[[nodiscard]] std::string user_runtime_directory();

/// callgate's own environment, "NAME=value".
[[nodiscard]] std::vector<std::string> current_environment();

/// The path of a program of the system; "" if there is none. It is never looked up by PATH, which may name a
/// directory where agents write.
[[nodiscard]] std::string system_program(std::string_view name);

/// LoadContext::read_file. Reads regular files only, and never waits for a FIFO or a device. The problem says
/// why a file cannot be read.
[[nodiscard]] Expected<std::string> read_regular_file(const std::string& path, std::size_t limit);

/// Makes a LoadContext whose functions read this machine. `tree` must outlive it.
[[nodiscard]] rules::LoadContext host_context(const Places& places, const std::string& workdir,
                                              const std::string& tmp, const rules::FileTree& tree);

}  // namespace callgate
