// Tells the rules about this machine and user: files as they are at start, directories, names.
//
// The pure layers (rules/) take these as values and functions; tests inject others.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rules/load/loader.hpp"
#include "supervisor/host/file_tree.hpp"

namespace callgate {

/// A symbolic link that was followed on the way of a path.
struct FollowedLink {
    std::string path;  // absolute, its directory without links
    /// Whether this user, and so a run, could have made it: it is the user's, or lies where the user may
    /// write. An attacker may swap directories while the path is walked: what cannot be told counts as such.
    bool ours = true;
};
using FollowedLinks = std::vector<FollowedLink>;

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

/// `path` (absolute) without symbolic links, "." and "..". Names that do not exist stay as they are, and
/// links to them are followed. No link beneath /proc is followed: its target depends on the process that
/// asks.
[[nodiscard]] std::string canonical(const std::string& path);
/// The same; adds the links that were followed.
[[nodiscard]] std::string canonical(const std::string& path, FollowedLinks& followed);

/// `path` (absolute) with its directory as `canonical` gives it, and the last component as it is: a link
/// there is not followed. For files that callgate writes: an earlier run may have made that link.
[[nodiscard]] std::string own_name(const std::string& path);
/// The same; adds the links that were followed.
[[nodiscard]] std::string own_name(const std::string& path, FollowedLinks& followed);

/// Whether nobody but this user and root may change the object at `path`, which is canonical, or give its
/// name to another. The problem says who may. What is not there is nobody's.
[[nodiscard]] Expected<void> is_only_ours(const std::string& path);

/// Whether `path` itself is a symbolic link.
[[nodiscard]] bool is_link(const std::string& path);

/// LoadContext::read_file. Reads regular files only, and never waits for a FIFO or a device. The problem says
/// why a file cannot be read.
[[nodiscard]] Expected<std::string> read_regular_file(const std::string& path, std::size_t limit);

/// Makes a LoadContext whose functions read this machine. `tree` must outlive it.
[[nodiscard]] rules::LoadContext host_context(const Places& places, const std::string& workdir,
                                              const std::string& tmp, const rules::FileTree& tree);

/// Makes the rules of invariant 9 for these directories and the rule files that were loaded. They deny reads,
/// writes and connects in the state, runtime and pending-rule directories, and writes to rule files and
/// binary. `own_files` (log, signing key, report) are closed by name; "" stands for none.
/// `fixed` are the work directory and the run's private one. The run may not remove or rename them: the next
/// run by the same name must find the same directory.
/// `denials` is the list that the run reads and does not write; "" stands for none.
/// `home` is the run's lasting home; "" stands for none. The others among places.homes are closed.
[[nodiscard]] std::vector<rules::Rule> built_in_rules(const Places& places,
                                                      const std::vector<std::string>& rule_files,
                                                      const std::vector<std::string>& own_files,
                                                      const std::vector<std::string>& fixed = {},
                                                      const std::string& denials = "",
                                                      const std::string& home = "");

/// Adds the rules about a list of denials: it is read, and not written.
void add_list_of_denials(std::vector<rules::Rule>& all, const std::string& file);

/// The run's list of denials (run/denials_file.hpp), beside its private directory.
[[nodiscard]] std::string denials_name(const std::string& private_directory);

/// Makes the rules that close the machine's own services for look-ups: nscd, systemd-resolved, Avahi, SSSD,
/// winbind and the system bus. A name that is asked there would leave the machine undecided. Programs see no
/// such service, and go on to the name servers.
///
/// `replaced` are files that the run gets in a form of its own. A rule allows every program to read them. It
/// names programs, so the kernel does not decide these reads alone.
[[nodiscard]] std::vector<rules::Rule> name_service_rules(const std::vector<std::string>& replaced);

/// The id of the rule about replaced files.
inline constexpr std::string_view name_files_rule = "callgate-name-files";

}  // namespace callgate
