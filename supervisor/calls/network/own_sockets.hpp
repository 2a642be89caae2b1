// Unix sockets in the work directory: where a rule allows the whole of it, a run connects to its own alone.
// Services of the user that listen there (an engine of containers, an editor) are not what such a rule means.
//
// An attacker controls all names in the work directory. It may move another's socket to the name of its own,
// and may wait until the number of an inode comes again. So a socket is known by its inode, and a pin on it
// keeps the number taken. The caller makes the pin while it holds the names alone. So no process of the run
// gives the name to another socket between bind and pin: its renames and links are callgate's acts.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/unique_fd.hpp"
#include "rules/match/rule_set.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// Any thread.
class OwnSockets {
public:
    OwnSockets(const rules::RuleSet& rules, std::string workdir)
        : rules_(rules), workdir_(std::move(workdir)) {}

    /// Whether a socket of this name is connected to only where the run bound it.
    [[nodiscard]] bool concerns(std::string_view path) const { return path.starts_with(workdir_ + '/'); }

    /// Notes the socket that was just bound at `place`. The caller holds FileNeeds::names alone.
    void add(const Place& place);

    /// The denial of an allowed connect to a socket that the run did not bind.
    [[nodiscard]] std::optional<rules::Verdict> refuses(const Subject& subject,
                                                        const rules::Verdict& verdict);

private:
    using Key = std::pair<std::uint64_t, std::uint64_t>;  // device, inode
    /// Whether only rules about the whole work directory allow it.
    [[nodiscard]] bool by_workdir_alone(const rules::UnixObject& socket, const rules::Rule* decided_by) const;
    void forget_removed();

    const rules::RuleSet& rules_;
    const std::string workdir_;
    std::mutex mutex_;
    std::map<Key, UniqueFd> pins_;  // O_PATH
};

}  // namespace callgate::calls
