// `expand`: path globs become the paths that exist at start, so that the hierarchies around them stay static.
//
// Soundness: the glob stays in force beneath every directory that was not walked (too deep, too many entries,
// unreadable). An attacker may have filled the tree: the walk is bounded, without recursion, and never
// follows a symbolic link.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rules/model/glob.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::rules {

struct Expansion {
    std::vector<Glob> globs;
    /// Existing objects that matched; the caller may resolve their canonical names.
    std::vector<std::string> found;
    /// Directories beneath which the glob stays in force.
    std::vector<std::string> kept;
};

class Expander {
public:
    static constexpr std::size_t max_levels = 6;
    static constexpr std::size_t max_entries = 20'000;
    /// Bound on entries compared with patterns, over all patterns. Later patterns stay unexpanded.
    static constexpr std::size_t max_compared = 4'000'000;
    /// Bound on kept directories for one branch. Beyond it their parents keep the glob.
    static constexpr std::size_t max_kept = 256;

    explicit Expander(const FileTree& tree) : tree_(tree) {}

    /// With `sources` the walk leaves out installed packages: `node_modules`, and
    /// `lib*/python*/site-packages` beside a `pyvenv.cfg`. Package managers replace these trees as a whole.
    /// An earlier run may have planted a `pyvenv.cfg`; it then hides nothing but a directory of that very
    /// form.
    [[nodiscard]] Expansion expand(const Glob& glob, bool sources = false);

    /// A directory or file of the tree. It is read once, on the first visit: many patterns walk the same
    /// directories.
    struct Listing;
    struct Node {
        std::string name;        // after a '/'
        bool directory = false;  // never a symbolic link
        bool read = false;
        std::unique_ptr<Listing> listing;  // null: not read yet, or unreadable
    };
    struct Listing {
        std::vector<Node> children;
        // Indices of children: all of them by name, and the directories.
        std::unordered_map<std::string_view, std::uint32_t> by_name;
        std::vector<std::uint32_t> directories;

        explicit Listing(const std::vector<FileTree::Entry>& entries);
    };

private:
    Node& head(const std::string& directory);
    void expand_branch(const Glob::Branch& branch, bool sources, Expansion& into);

    const FileTree& tree_;
    std::map<std::string, Node> heads_;
    std::size_t compared_ = 0;
};

}  // namespace callgate::rules
