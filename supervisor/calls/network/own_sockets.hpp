// Unix sockets in the work directory: where a rule allows the whole of it, a run connects to its own alone.
// Services of the user that listen there (an engine of containers, an editor) are not what such a rule means.
// A nested run connects to its own alone, too; its rules and its work directory are those that it sent.
//
// An attacker controls all names in the work directory. It may move another's socket to the name of its own,
// and may wait until the number of an inode comes again. So a socket is known by its inode, and a pin on it
// keeps the number taken. The caller makes the pin while it holds the names alone. So no process of the run
// gives the name to another socket between bind and pin: its renames and links are callgate's acts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    /// For a nested run with a work directory of its own. What it binds is the run's around it, too, but not
    /// the other way round.
    OwnSockets(const rules::RuleSet& rules, std::string workdir, OwnSockets& around)
        : rules_(rules), workdir_(std::move(workdir)), around_(&around) {}

    /// Whether a socket of this name is connected to only where the run bound it.
    [[nodiscard]] bool concerns(std::string_view path) const {
        return in_workdir(path) || (around_ != nullptr && around_->concerns(path));
    }

    /// Notes the socket that was just bound at `place`. The caller holds FileNeeds::names alone.
    void add(const Place& place);

    /// The denial of an allowed connect to a socket that the run did not bind.
    [[nodiscard]] std::optional<rules::Verdict> refuses(const Subject& subject,
                                                        const rules::Verdict& verdict);

private:
    using Key = std::pair<std::uint64_t, std::uint64_t>;  // device, inode
    struct Pin {
        UniqueFd file;                  // O_PATH
        std::vector<std::uint64_t> by;  // numbers of who bound it, and of the runs around it
    };
    [[nodiscard]] bool in_workdir(std::string_view path) const { return path.starts_with(workdir_ + '/'); }
    [[nodiscard]] OwnSockets& outermost() { return around_ == nullptr ? *this : around_->outermost(); }
    void add(const Place& place, std::vector<std::uint64_t> by);
    /// Whether this run, or a nested one of it, bound the socket.
    [[nodiscard]] bool is_own(const audit::FileIdentity& identity);
    /// Whether only rules about the whole work directory allow it.
    [[nodiscard]] bool by_workdir_alone(const rules::UnixObject& socket, const rules::Rule* decided_by) const;
    void forget_removed();

    const rules::RuleSet& rules_;
    const std::string workdir_;
    OwnSockets* const around_ = nullptr;  // it has the pins
    const std::uint64_t number_ = next_number++;
    static inline std::atomic<std::uint64_t> next_number{0};
    std::mutex mutex_;
    std::map<Key, Pin> pins_;
};

}  // namespace callgate::calls
