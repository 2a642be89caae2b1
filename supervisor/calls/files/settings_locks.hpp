// Lock files of git (`NAME.lock`) beside files that a run may not change, or by a list of keys alone.
//
// The user's own git takes such a lock while a run is going on: it makes the file, writes it, and renames it
// to NAME. A run that wrote it or put another in its place meanwhile would choose what becomes NAME. So the
// run makes such files, and has those that it made by opening. Others are closed to it, whatever the rules
// say.
//
// An attacker makes, links, moves and removes names at any time. A file is known by a descriptor that is kept
// while it stands there. So nothing else gets its inode. git makes a lock only where none is. So while the
// run's own file stands at the name, no lock of the user's does. Removing and moving hold FileNeeds::names
// alone, from the look to the act (is_settings_lock). So no other thread of the run makes room in between.
//
// Beside them stand the counts of a rebase (git_counts.hpp), which rules hold by a filter as well.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/unique_fd.hpp"
#include "supervisor/calls/files/git_counts.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// Whether the rules let the file change by a filter alone whose lock this would be.
[[nodiscard]] bool is_settings_lock(const rules::RuleSet& rules, std::string_view path);

/// Any thread.
class SettingsLocks {
public:
    /// The denial of a call on a lock that the run did not make.
    [[nodiscard]] std::optional<rules::Verdict> refuses(const rules::RuleSet& rules, const Subject& subject);
    /// An open has made `path`, which is a lock. At most `max_locks` are known.
    void note(const std::string& path, int file);
    /// The name is free again.
    void forget(const std::string& path);
    [[nodiscard]] GitCounts& counts() { return counts_; }

private:
    static constexpr std::size_t max_locks = 64;
    [[nodiscard]] bool owns(std::string_view path, const audit::FileIdentity& identity);

    std::mutex mutex_;
    std::unordered_map<std::string, UniqueFd> own_;
    GitCounts counts_;
};

}  // namespace callgate::calls
