// Names of files without links, and whose the objects behind them are.
//
// Paths come from the user and from rule files; links on their way may be an earlier run's. So each link that
// was followed is told, with whether a run could have made it.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/expected.hpp"

namespace callgate {

/// A symbolic link that was followed on the way of a path.
struct FollowedLink {
    std::string path;  // absolute, its directory without links
    /// Whether this user, and so a run, could have made it: it is the user's, or lies where the user may
    /// write. An attacker may swap directories while the path is walked: what cannot be told counts as such.
    bool ours = true;
};
using FollowedLinks = std::vector<FollowedLink>;

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

/// `canonical` for the hundreds of patterns of one rule set, whose heads share most of their components: it
/// remembers the names that are no links. Copies share what they remember.
struct CanonicalNames {
    std::shared_ptr<std::unordered_set<std::string>> plain =
        std::make_shared<std::unordered_set<std::string>>();
    FollowedLinks* followed = nullptr;  // null: links are not told
    [[nodiscard]] std::string operator()(const std::string& path) const;
};

}  // namespace callgate
