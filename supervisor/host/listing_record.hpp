// A record of what starts found in the work directory, for the next start (rules/load/known_listings).
//
// For each directory it has device, inode and change time (inode(7)), and the entries that matter to the
// patterns. A start asks for the three once a directory, and lists those that differ.
//
// Soundness. Whatever makes, removes or renames an entry sets the directory's change time to the present, and
// only who may set the clock can choose it. So an equal time says that the entries are the same, if the time
// was over when the directory was listed. A time has to be two seconds older than this start: some file
// systems count in whole seconds. A directory that takes the place of another, by a rename or a mount, has
// another inode or device. While another run exchanges directories above, a path leads to two in turn. So
// what was listed is kept only if the time is of the same one. File systems whose times come from elsewhere
// (a network, FUSE, overlayfs) are listed anew. So are encrypted directories (fscrypt), whose names change
// when their key comes. After a change of the clock or a boot nothing counts.
//
// An attacker may have filled the tree, and was perhaps an earlier run. It cannot read or change the record,
// which lies in the state directory (invariant 9). A file of another user is thrown away. So is one that
// others may write, or that does not have the whole form. Somebody can forge times who writes outside of runs
// into the device of a mounted file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rules/load/known_listings.hpp"

namespace callgate {

/// For one thread only. It is made before anything is listed that `add` is told of.
class ListingRecord final : public rules::KnownListings {
public:
    struct Clock {
        std::int64_t seconds = 0;  // CLOCK_REALTIME
        std::int64_t set_to = 0;   // its offset to CLOCK_BOOTTIME, in nanoseconds
        [[nodiscard]] static Clock now();
    };
    /// `state` is the state directory, which need not exist; "": nothing is known, and nothing is kept. What
    /// another `build` of callgate has kept does not count: its patterns may have matched otherwise.
    ListingRecord(const std::string& state, std::string build, const Clock& clock = Clock::now());

    void begin(const std::string& head, const std::vector<std::string>& patterns) override;
    [[nodiscard]] std::optional<Entries> find(const std::string& directory) override;
    void add(Entries entries, const std::optional<rules::FileTree::Identity>& listed) override;

    /// Writes the walks that had to list many directories, for the starts that follow. Where it cannot, the
    /// next start takes longer, and nothing else is lost.
    void save() const;

private:
    /// Says that a directory has the entries that it had.
    struct Stamp {
        std::uint64_t device = 0, inode = 0;
        std::int64_t seconds = 0, nanoseconds = 0;  // of its change time
        [[nodiscard]] std::string text() const;
    };
    struct Walk {
        std::string before, after;  // the file's text
        std::int64_t set_to = 0;    // of the clock when the first of `before` was listed
        /// The part of `before` about each directory.
        std::unordered_map<std::string_view, std::string_view> directories;
        std::size_t listed = 0;
    };

    [[nodiscard]] std::string read(const std::string& name) const;
    [[nodiscard]] bool divide(const std::string& name, Walk& walk) const;
    [[nodiscard]] bool is_trusted(const std::string& directory, std::uint64_t device);
    [[nodiscard]] std::optional<Stamp> stamp(const std::string& directory);

    std::string place_;  // the directory of the files; ""
    std::string build_;
    Clock began_;
    std::map<std::uint64_t, bool> trusted_;  // devices
    std::map<std::string, Walk> walks_;      // by the names of their files
    Walk* walk_ = nullptr;                   // that goes on
    /// The directory that `add` is about, where it is worth keeping.
    std::optional<std::pair<std::string, Stamp>> asked_;
};

}  // namespace callgate
