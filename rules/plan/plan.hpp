// A rule set sorted into tiers: what Landlock and the filter hold alone, and what is contested.
//
// Pure: what it must know of the machine comes in as values (ABI, the tree of files at start). What an
// older Landlock ABI cannot hold is contested instead, never dropped.
//
// Soundness. A grant is made only for a hierarchy in which no deny, ask or kill rule (nor an allow that
// depends on `program`, nor a built-in rule) can decide for that operation. So whatever the kernel does
// under the grants alone is allowed by the rules: continuing a call can only land there. Landlock attaches
// grants to inodes: moving a granted directory keeps its grant, so `rename` and `link` are never continued.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/model/operation.hpp"
#include "rules/match/rule_set.hpp"

namespace callgate::rules {

/// What the plan asks about files as they are at start.
class FileTree {
public:
    enum class Kind { absent, file, directory };
    struct Entry {
        std::string name;
        bool directory = false;
        bool symbolic_link = false;
    };
    virtual ~FileTree() = default;
    /// The kind of the object at an absolute path, not following a final symbolic link (a link: `file`).
    [[nodiscard]] virtual Kind kind(const std::string& path) const = 0;
    /// Of a `file`: whether it may be a symbolic link (true where unsure).
    [[nodiscard]] virtual bool may_be_link(const std::string& /*path*/) const { return true; }
    /// The entries of a directory; nothing where it cannot be read or has more than `limit`.
    [[nodiscard]] virtual std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                                    std::size_t limit) const = 0;
};

enum class RecordMode : std::uint8_t { minimal, contested, all };

struct PlanInput {
    /// 1..7 and beyond. What is not held by this ABI is contested.
    int landlock_abi = 0;
    RecordMode record = RecordMode::contested;
    const FileTree* tree = nullptr;
    /// False: the plan does not say why. `contests` are then without `because` and `why`, and there are no
    /// `tiers`; nothing else differs, and a run is spared a thousand sentences that nobody reads.
    bool reasons = true;
};

/// Operations that Landlock allows at and beneath `path` (a directory), or on `path` itself (a file). Whoever
/// opens `path` must follow no symbolic link in any component: what became a link since is left out.
struct Grant {
    std::string path;
    bool directory = false;
    OperationSet operations;
    /// Ids of the rules that it rests on ("default" where the default allows).
    std::vector<std::string> rules;
    /// EXECUTE needs READ_FILE: reads beneath are granted by Landlock although a rule contests some of them.
    bool notify_only_read = false;
    /// Landlock lets everything execute here (`operations` has no execute), and the notify alone decides.
    bool notify_only_execute = false;
};

enum class Tier : std::uint8_t { filter, landlock, contested };

/// Where one rule landed, and why (for `callgate plan`).
struct RuleTier {
    const Rule* rule = nullptr;
    Tier tier = Tier::contested;
    std::string why;
};

/// Why requests of one operation are notified.
struct Contest {
    Operation operation = Operation::read;
    /// Ids of rules, "default", "record", or "landlock" (what this ABI cannot hold).
    std::vector<std::string> because;
    std::string why;
};

struct Plan {
    int landlock_abi = 0;
    RecordMode record = RecordMode::contested;
    std::vector<Grant> grants;
    /// TCP ports that are allowed to every host (Landlock from ABI 4).
    std::vector<PortRange> connect_ports, bind_ports;
    /// Every TCP connect or bind is allowed: the right is then not handled by Landlock.
    bool all_connect = false, all_bind = false;
    /// What Landlock then holds of TCP is what the rules say: no host, address or program decides, nothing
    /// asks.
    bool connect_exact = false, bind_exact = false;
    /// Operations for which some request may be contested or must be recorded: their calls are notified.
    OperationSet notified;
    std::vector<Contest> contests;
    std::vector<RuleTier> tiers;
    /// Some hierarchy is notify-only: no read-only open is continued.
    bool notify_only = false;
    /// Something that Landlock lets execute may not be: an execve that is continued reads its path again and
    /// could land there, so each is judged twice, before and on what then runs, wherever its path pointed.
    bool notify_only_execute = false;
    /// Sockets that can be made at all.
    bool udp = false, unix_datagram = false;
    /// `minimal` only: no rule could allow a unix socket's connect or bind, so the filter must refuse
    /// socket(AF_UNIX) (EACCES; socketpair stays), and connect is untrapped on the strength of that.
    bool unix_closed = false;
    /// What this ABI holds. Where `refer` is not held (before 2) the kernel refuses every rename and link
    /// across directories: they are answered on behalf. Where truncation is not held (before 3), an open with
    /// O_TRUNC, an openat2 (its flags lie in memory) and truncate must not be continued, whatever
    /// `StaticGrants` says of modify. TCP from 4, ioctls on devices from 5, abstract sockets of and signals
    /// to strangers from 6.
    bool refer_held = false, truncation_held = false, tcp_held = false, ioctl_held = false;
    bool abstract_held = false, signals_held = false;

    [[nodiscard]] const Contest* contest(Operation operation) const;
};

[[nodiscard]] Plan make_plan(const RuleSet& rules, const PlanInput& input);

/// Rules that this version cannot enforce, each with the reason (a sentence without a full stop): to be
/// reported as errors, never ignored.
[[nodiscard]] std::vector<std::pair<const Rule*, std::string>> unenforceable(const RuleSet& rules);

/// Which operations the grants allow by path, for the way of a call: immutable but for `forget`.
class StaticGrants {
public:
    explicit StaticGrants(const Plan& plan);
    StaticGrants(StaticGrants&&) noexcept;
    ~StaticGrants();
    /// Whether Landlock alone allows all of `operations` (never metadata, connect, bind) on the object at
    /// `path`, created, removed or renamed names included (for create and remove the grant must be on a
    /// directory strictly above). Any thread, no allocation, cost of the depth of `path`.
    [[nodiscard]] bool allow(OperationSet operations, std::string_view path) const;
    /// Whether Landlock lets the object at `path` execute, be it that the notify alone decides there. Any
    /// thread.
    [[nodiscard]] bool let_execute(std::string_view path) const;
    /// Grants at or beneath `path` no longer stand for what lies at that name: it was removed, renamed or
    /// replaced, and a file's grant goes with the old file. To be called before each such act, of files too.
    /// Any thread.
    enum class Departure : std::uint8_t { removed, moved };
    void forget(std::string_view path, Departure how = Departure::moved) const;
    /// Whether a Landlock grant may be attached to what lies at or beneath `path`, and so would travel with
    /// it.
    [[nodiscard]] bool may_carry(std::string_view path) const;

private:
    struct Table;
    std::unique_ptr<const Table> table_;
};

}  // namespace callgate::rules
