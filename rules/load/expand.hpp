// `expand`: path globs become the paths that exist at start, so that the hierarchies around them stay static.
//
// Soundness. What the glob becomes matches each object that exists at start and matches the glob. A walk that
// ends has looked at every directory but those that it could not read. Beneath these the glob stays in force.
// A walk that stops (time, entries, too many unreadable directories) leaves the glob as it was written. What
// the walk had found is dropped, as the glob matches it.
//
// A moved directory takes no secret to a freer name. The rename check compares what remains of the patterns
// beneath both names. A literal path or a kept glob beneath the old name is missing at the new one, so the
// move is refused. A whole glob with `**` remains the same at both names: the move is made, and the glob
// decides at the new name too.
//
// An attacker may have filled the tree: the walk is bounded in time and entries, without recursion, and never
// follows a symbolic link. A full tree makes more calls contested and nothing freer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rules/load/known_listings.hpp"
#include "rules/model/glob.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::rules {

/// Returns how long the calling thread has waited since its start for a processor that others had; 0 if the
/// kernel does not tell (Documentation/scheduler/sched-stats.rst).
[[nodiscard]] std::chrono::nanoseconds waited_for_processor();

/// The clock by which a walk is bounded.
struct WalkClock {
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
    std::function<std::chrono::nanoseconds()> waited = waited_for_processor;
};

struct Expansion {
    std::vector<Glob> globs;
    /// Existing objects that matched; the caller may resolve their canonical names.
    std::vector<std::string> found;
    /// Directories beneath which the glob stays in force: those that cannot be read, or the glob's own head.
    std::vector<std::string> kept;
};

class Expander {
public:
    /// Bounds over all patterns, from the first one on: time, and entries that are read. The patterns of the
    /// walk at which one is reached, and all later ones, stay as they were written. Turns of other programs
    /// do not count: a busy machine must not change what a run may do. With them it is ten times as long.
    static constexpr std::chrono::milliseconds max_time{1000};
    static constexpr std::size_t max_entries = 300'000;
    /// Bound on unreadable directories of one walk.
    static constexpr std::size_t max_kept = 256;

    /// `known` may be null: every directory is then listed.
    explicit Expander(const FileTree& tree, KnownListings* known = nullptr, WalkClock clock = {});
    Expander(const Expander&) = delete;
    Expander& operator=(const Expander&) = delete;
    ~Expander();

    /// Says that `expand` will be asked this. One walk finds all that was announced beneath a directory.
    void announce(const Glob& glob, bool sources = false);

    /// With `sources` the walk leaves out installed packages: `node_modules`, and
    /// `lib*/python*/site-packages` beside a `pyvenv.cfg`. Package managers replace these trees as a whole.
    /// An earlier run may have planted a `pyvenv.cfg`; it then hides nothing but a directory of that very
    /// form. Beneath a directory that a component of the pattern names, a literal rest counts even if
    /// nothing is there. So a repository cannot get a file that it lacks.
    [[nodiscard]] Expansion expand(const Glob& glob, bool sources = false);

    /// For the walk alone.
    struct Question;
    /// Whether a bound is reached.
    [[nodiscard]] bool stopped();
    /// The directory is read, whatever is known of it. Nothing is returned if that fails.
    [[nodiscard]] std::optional<std::vector<FileTree::Entry>> entries(const std::string& directory);
    [[nodiscard]] const FileTree& tree() const { return tree_; }
    [[nodiscard]] KnownListings* known() const { return known_; }

private:
    Question& question(const Glob::Branch& branch, bool sources);
    void answer(const std::string& head, bool sources);

    const FileTree& tree_;
    KnownListings* known_;
    WalkClock clock_;
    std::optional<std::chrono::steady_clock::time_point> began_;
    std::chrono::steady_clock::time_point until_;
    std::chrono::nanoseconds waited_before_{};
    std::map<std::pair<std::string, bool>, std::vector<std::unique_ptr<Question>>> questions_;
    std::size_t entries_ = 0;  // that were read
};

}  // namespace callgate::rules
