// Settings of a git repository (git-config(1)) that a run wants to change: what it may change, and the new
// text.
//
// An attacker writes the wanted file whole. Its text must be of the plain form that git_config_text.hpp
// reads. Files that include others are refused, as those could say anything. Keys go by an allow-list, and
// values by what git does with them. All other settings must be those that were there, in their order. The
// new text is written from what was parsed, so no byte is in it that was not understood. Pure, but for the
// answer about local repositories.
//
// A remote or branch that is there decides where the user's next push goes. So its change is left to a
// person.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::calls {

/// Whether a path has the form of a repository's settings: `config` or `config.worktree`. A repository may
/// lie in a directory of any name, so the rule says which of them are meant.
[[nodiscard]] bool is_git_config(std::string_view path);

struct GitConfigChange {
    std::string text;     // of the new file, valid if nothing was refused
    std::string refused;  // why not; keys in it are printable
    /// Settings of a remote or branch that is there, one a line: key, old and new values, quoted. Printable
    /// ASCII, and two lines are equal only if all of that is. A person must agree to each of them.
    std::vector<std::string> asked{};
    std::string unasked{};  // why it is refused if nobody can be asked
};

struct GitConfigRights {
    /// The run may remove the file and make it anew, so it may change what the list holds as well.
    bool own = false;
    /// Whether the run can write nothing in this local repository. To push there runs its hooks.
    std::function<bool(std::string_view path)> closed;
};

/// The change from `before` (empty: there is no file) to `wanted`.
[[nodiscard]] GitConfigChange git_config_change(std::string_view before, std::string_view wanted,
                                                const GitConfigRights& rights);

}  // namespace callgate::calls
