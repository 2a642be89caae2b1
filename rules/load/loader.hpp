// Loads rule files, profiles and options into one compiled rule set: parsing, `extends`, merging, variables,
// `expand`, warnings and the rule set's own examples.
//
// An attacker may have written the file (`callgate check` on a downloaded rule set). Size, depth, encoding
// and duplicate keys are bounded and reported, never trusted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/expected.hpp"
#include "rules/load/diagnostic.hpp"
#include "rules/load/known_listings.hpp"
#include "rules/load/load_snapshot.hpp"
#include "rules/load/shipped.hpp"
#include "rules/match/rule_set.hpp"
#include "rules/model/agent.hpp"
#include "rules/model/limits.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::rules {

/// Facts about the host that the loader needs; all are values, so that tests inject them.
struct LoadContext {
    /// Values of ${workdir}, ${home}, ${tmp}, ${config}: absolute and resolved.
    std::string workdir, home, tmp, config;
    /// Values of ${git-common} and ${git-admin}: the repository of a worktree or submodule, and what git
    /// keeps there for it alone. "" where there is none: rules about nothing else are then left out.
    std::string git_common, git_admin;
    /// The home of the user's account where ${home} is another directory; else "". "~" in a rule that
    /// restricts means both.
    std::string account_home;
    /// The user's own home where ${home} is a lasting one of the run (--home); else "". "~" means it too in a
    /// rule that restricts, and in one that allows executing and no writing: programs stay where they are.
    std::string user_home;
    /// Reads a whole file, at most `limit` bytes. Errors: a directory, a FIFO, too large, absent.
    std::function<Expected<std::string>(const std::string& path, std::size_t limit)> read_file;
    /// The files at start, for `expand`.
    const FileTree* tree = nullptr;
    /// The findings of earlier starts for `expand`; may be null.
    KnownListings* known_listings = nullptr;
    /// Returns the canonical form of a literal path head (symbolic links resolved), or the path itself if it
    /// does not exist.
    std::function<std::string(const std::string&)> canonical;
    /// Returns the addresses of this host's interfaces, for ${own}; may be empty.
    std::function<std::vector<IpAddress>()> own_addresses;
    /// Snapshot of an earlier load, whose facts replace those of the host; may be null.
    const LoadSnapshot* earlier = nullptr;
    /// Returns the number of hard links of an object, 0 if unknown; may be empty. For the warning about
    /// literal denies.
    std::function<unsigned long(const std::string&)> link_count;
    /// The kernel's Landlock ABI if known, for warnings.
    std::optional<int> landlock_abi;
    /// Landlock tells sockets of the run itself from others (ABI 9), and the run's sockets are its own
    /// processes'. Rules that need this are left out elsewhere.
    bool landlock_unix = false;
    /// True: examples are evaluated and warnings are collected (`callgate check`).
    bool check = false;
};

/// The sources that the user named, in merge order.
struct RuleSources {
    struct File {
        std::string path;
    };
    struct Profile {
        std::string name;
    };
    struct Text {
        std::string json;
        std::string label;
    };
    std::vector<std::variant<File, Profile, Text>> parts;
    /// Rules made by options (-r, -w, -x, -d, -c, --bind), complete except for merging.
    std::vector<Rule> option_rules;
    /// --except RULE=PATTERN
    std::vector<std::pair<std::string, std::string>> exceptions;
    std::optional<Action> fallback;  // --default
    /// Rules that protect callgate itself (docs/dev/architecture.md, invariant 9).
    std::vector<Rule> built_in;
    /// Makes the rules about the machine's own ways to look a name up. Called, and the rules added, only
    /// where look-ups are decided; may be empty.
    std::function<std::vector<Rule>()> name_services{};
    /// Returns the text that replaces a shipped profile on this host; may be empty.
    using ProfileText = std::function<std::optional<std::string>(const std::string& name)>;
    ProfileText profile_text{};
};

struct LoadedRules {
    std::shared_ptr<const RuleSet> rules;  // null after an error
    Limits limits;
    Environment environment;
    bool sni = false;  // connects by name go through the front (relay/front.hpp)
    std::string description;
    std::vector<Diagnostic> diagnostics;  // errors and warnings
    LoadSnapshot snapshot;
    std::string sha256;              // of all merged sources, canonical, hex
    std::vector<std::string> files;  // rule files that were read; the run may not write them (invariant 9)
    Agent agent;
    /// The problem is the first error among the diagnostics.
    [[nodiscard]] Expected<void> first_error() const;
    [[nodiscard]] bool ok() const { return static_cast<bool>(first_error()); }
};

[[nodiscard]] LoadedRules load(const RuleSources& sources, const LoadContext& context);

}  // namespace callgate::rules
