// Whether names that were looked up may mean something else by now: told by inotify(7) instead of looking
// again.
//
// Watched are the directories that hold each component of a path, from the root on, and mount tables. Whoever
// may write there chooses when to change them, also while the watches are made: a component is watched before
// what lies beneath it is reached through it, so that a change that would lead astray is itself seen. No
// watch is believed on file systems that others change without this kernel (network, FUSE) or that make no
// events (procfs, sysfs, encrypted directories): such names are not covered, nor are those beneath a symbolic
// link, in a directory that may not be read, or beyond fs.inotify.max_user_watches.
//
// Contents of files are not watched: a file may be written through a mapping, which makes no event.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/unique_fd.hpp"

namespace callgate {

/// Used by one thread. A forked process has the same one: who of them asks finds out for all, and only one of
/// them may ask at a time.
class ChangeWatch {
public:
    /// Watches nothing yet. Where inotify or /proc is missing it never covers anything.
    ChangeWatch();
    ChangeWatch(const ChangeWatch&) = delete;
    ChangeWatch& operator=(const ChangeWatch&) = delete;
    ~ChangeWatch();

    /// From here on `quiet` tells of what `path` (absolute) names: whether anything is there, and which
    /// object; a final symbolic link counts itself. False: it does not tell of that.
    [[nodiscard]] bool covers_name(const std::string& path);
    /// The same of the names in `directory`.
    [[nodiscard]] bool covers_names_in(const std::string& directory);

    /// False where something that is covered may have changed since it was, or where that would take longer
    /// to find out than looking again; then for ever.
    [[nodiscard]] bool quiet();

private:
    /// What is asked of one directory; several paths may lead there.
    struct Watched {
        bool all = false;  // every name
        std::unordered_set<std::string> names;
    };
    static constexpr int none = -1;

    [[nodiscard]] int watch_of(const std::string& directory);
    [[nodiscard]] int add(const std::string& directory);
    [[nodiscard]] bool mounts_changed() const;
    [[nodiscard]] bool names_changed() const;
    [[nodiscard]] bool concerns(int watch, std::uint32_t what, std::string_view name) const;

    UniqueFd events_, mounts_;
    std::unordered_map<std::string, int> watches_;  // of directories, by path; `none`: not covered
    std::unordered_map<int, Watched> watched_;
    /// In memory that forked processes share; false while one of them finds out, lest its end lose what it
    /// was told. Null: there is none.
    std::atomic<bool>* quiet_;
};

}  // namespace callgate
