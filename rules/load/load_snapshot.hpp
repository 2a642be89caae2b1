// Facts about the host that a rule set depended on when it was loaded.
//
// A run records them, so that `audit replay` can evaluate its decisions again after files and names have
// changed. Read back from a log the facts are untrusted: patterns are compiled anew, and an invalid one is
// ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/address.hpp"

namespace callgate::rules {

/// In an address list: the loopback blocks and the addresses of this host. `hosts` keeps them by this name.
inline constexpr std::string_view own_name_of_host = "${own}";

/// Whether Landlock tells sockets of the run itself from others. It does by their maker, from ABI 9 on. Where
/// descriptors cannot be copied from the run, callgate makes the run's sockets.
constexpr bool tells_own_sockets(std::int64_t landlock_abi, bool descriptors_copied) {
    return landlock_abi >= 9 && descriptors_copied;
}

struct LoadSnapshot {
    /// The paths that a pattern of a rule with `expand` became.
    struct Expanded {
        std::string pattern;
        bool followed = false;           // also resolved links to the found objects (deny, kill)
        std::vector<std::string> paths;  // as patterns
    };
    std::vector<Expanded> expanded;
    std::map<std::string, std::vector<IpAddress>> hosts;
    /// Targets of the names at the start of rule paths and rule options, if they led elsewhere. Such names
    /// are symbolic links, and names that were not in the kernel's form. Absent if unknown.
    std::optional<std::map<std::string, std::string>> links;
    /// Values of ${git-common} and ${git-admin}; "" where the work directory is no worktree or submodule.
    std::string git_common = {}, git_admin = {};
    /// Rules that need Landlock's right for unix sockets counted (LoadContext::landlock_unix).
    bool landlock_unix = false;

    /// The target of `path`: `path` itself if it is not in `links`, nothing if `links` is unknown.
    [[nodiscard]] std::optional<std::string> led(const std::string& path) const {
        if (!links) return std::nullopt;
        const auto known = links->find(path);
        return known == links->end() ? path : known->second;
    }
};

}  // namespace callgate::rules
