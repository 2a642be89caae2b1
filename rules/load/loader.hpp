// From rule files, profiles and options to one compiled rule set: parsing, `extends`, merging, variables,
// `expand`, warnings and the rule set's own examples.
//
// An attacker may have written the file (`callgate check` on a stranger's rule set): size, depth, encoding
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

#include "rules/load/diagnostic.hpp"
#include "rules/model/limits.hpp"
#include "rules/plan/plan.hpp"
#include "rules/match/rule_set.hpp"
#include "rules/load/shipped.hpp"
#include "rules/load/load_snapshot.hpp"

namespace callgate::rules {

/// What the loader must know of the machine; all values, so that tests inject them.
struct LoadContext {
    /// Absolute, resolved: for ${workdir}, ${home}, ${tmp}, ${config}.
    std::string workdir, home, tmp, config;
    /// Reads a whole file, at most `limit` bytes; an error message otherwise (a directory, a FIFO, too large,
    /// absent).
    std::function<std::variant<std::string, std::string /*error*/>(const std::string& path,
                                                                   std::size_t limit)>
        read_file;  // index 0: text, index 1: error
    /// Files as they are at start, for `expand`.
    const FileTree* tree = nullptr;
    /// The canonical form of a literal path head (symbolic links resolved); itself where it does not exist.
    std::function<std::string(const std::string&)> canonical;
    /// Addresses of a literal host name, resolved at start; empty where there are none.
    std::function<std::vector<IpAddress>(const std::string& host)> resolve;
    /// Of an earlier load: what stands there is taken from it. May be null.
    const Surroundings* then = nullptr;
    /// Hard links of an object, 0 where unknown; may be empty. For the warning about literal denies.
    std::function<unsigned long(const std::string&)> link_count;
    /// The kernel's Landlock ABI where it is known, for warnings.
    std::optional<int> landlock_abi;
    /// True: examples are evaluated and warnings are collected (`callgate check`).
    bool check = false;
};

/// What the user named: in this order they are merged.
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
    /// Rules made by options (-r, -w, -x, -d, -c, --bind), already complete but for merging.
    std::vector<Rule> option_rules;
    /// --except RULE=PATTERN
    std::vector<std::pair<std::string, std::string>> exceptions;
    std::optional<Action> fallback;  // --default
    /// Rules of invariant 9.
    std::vector<Rule> built_in;
};

struct LoadedRules {
    std::shared_ptr<const RuleSet> rules;  // null where there was an error
    Limits limits;
    Environment environment;
    std::string description;
    std::vector<Diagnostic> diagnostics;  // errors and warnings
    Surroundings surroundings;
    std::string sha256;                 // of everything that was merged, canonical, hex
    std::vector<std::string> files;     // rule files that were read (invariant 9: not writable)
    std::vector<std::string> degraded;  // "host-static", ...
    bool stated_profile = false;
    [[nodiscard]] bool ok() const;
};

[[nodiscard]] LoadedRules load(const RuleSources& sources, const LoadContext& context);

/// The nearest word by edit distance (at most a third of its length, at least 1), or nothing.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string_view> known);

}  // namespace callgate::rules
