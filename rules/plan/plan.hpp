// The plan: which rules Landlock and the filter enforce alone, and which calls are contested (decided one by
// one).
//
// Pure: facts about the host come in as values (ABI, the tree of files at start). If an older Landlock ABI
// cannot enforce something, its calls are contested; nothing is dropped.
//
// Soundness. A hierarchy gets a grant for an operation only if no other rule can decide that operation inside
// it. Such rules are deny, ask and kill rules, built-in rules, and an allow that depends on `program`. So the
// rules allow everything that the kernel permits under the grants alone: a continued call can only land
// there. Landlock attaches grants to inodes, so a moved directory keeps its grant; `rename` and `link` are
// therefore never continued.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "rules/model/operation.hpp"

namespace callgate::rules {

/// The file tree at start, as the plan sees it.
class FileTree {
public:
    enum class Kind { absent, file, directory };
    struct Entry {
        std::string name;
        bool directory = false;
        bool symbolic_link = false;
    };
    /// Names a directory, whatever its path leads to at another time.
    struct Identity {
        std::uint64_t device = 0, inode = 0;
        bool operator==(const Identity&) const = default;
    };
    virtual ~FileTree() = default;
    /// The kind of the object at an absolute path. A final symbolic link is not followed and counts as a
    /// `file`.
    [[nodiscard]] virtual Kind kind(const std::string& path) const = 0;
    /// Whether a `file` may be a symbolic link (true if unsure).
    [[nodiscard]] virtual bool may_be_link(const std::string& /*path*/) const { return true; }
    /// The entries of a directory; nothing if it cannot be read or has more than `limit`.
    [[nodiscard]] virtual std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                                    std::size_t limit) const = 0;
    /// The directory whose entries were given last; nothing if that is not known.
    [[nodiscard]] virtual std::optional<Identity> listed() const { return std::nullopt; }
};

enum class RecordMode : std::uint8_t { minimal, contested, all };

struct PlanInput {
    /// Landlock ABI, 0 without Landlock. Operations that this ABI cannot enforce are contested.
    int landlock_abi = 0;
    RecordMode record = RecordMode::contested;
    const FileTree* tree = nullptr;
    /// A directory of objects that callgate decides beyond the rules (calls/files/shared_memory); "": none.
    /// Nothing at or beneath it gets a grant.
    std::string shared_memory{};
    /// callgate decides beyond the rules who reads what /proc shows of a process (calls/opaque.hpp). Nothing
    /// in /proc gets a grant to read or change.
    bool processes = false;
    /// Descriptors cannot be copied from the run, because a profile around it refuses pidfd_getfd(2).
    bool sockets_on_behalf = false;
    /// False: the plan gives no reasons. `contests` then lack `because` and `why`, and `tiers` is empty;
    /// nothing else differs. This saves a run a thousand sentences that nobody reads.
    bool reasons = true;
};

/// Operations that Landlock allows at and beneath `path` (a directory), or on `path` itself (a file); connect
/// is of unix sockets. Code that opens `path` must follow no symbolic link in any component: a path that has
/// become a link since is left out.
struct Grant {
    std::string path;
    bool directory = false;
    OperationSet operations;
    /// Ids of the rules behind the grant ("default" if the default allows).
    std::vector<std::string> rules;
    /// Notify-only for reading: EXECUTE needs READ_FILE, so Landlock permits reads here although a rule
    /// contests some.
    bool notify_only_read = false;
    /// Notify-only for execution: Landlock permits it here (`operations` lacks it), and callgate decides each
    /// call.
    bool notify_only_execute = false;
};

enum class Tier : std::uint8_t { filter, landlock, contested };

/// The tier of one rule, and why (for `callgate plan`).
struct RuleTier {
    const Rule* rule = nullptr;
    Tier tier = Tier::contested;
    std::string why;
};

/// Why requests of one operation are notified.
struct Contest {
    Operation operation = Operation::read;
    /// Ids of rules, "default", "record", or "landlock" (an operation that this ABI cannot enforce).
    std::vector<std::string> because;
    std::string why;
};

/// The ports of one operation that Landlock is given.
struct HeldPorts {
    std::vector<PortRange> ports;
    bool all = false;  // every one is allowed: Landlock does not handle the right
    bool exact =
        false;  // Landlock's rules equal the rules: no host, address or program decides, nothing asks
    [[nodiscard]] bool limited() const { return exact && !all; }
};

struct Plan {
    int landlock_abi = 0;
    RecordMode record = RecordMode::contested;
    std::vector<Grant> grants;
    /// TCP, from ABI 4: a port that is allowed to every host.
    HeldPorts tcp_connect, tcp_bind;
    /// UDP, from ABI 10. Landlock asks for the right to bind port 0 where a socket that is not bound connects
    /// or sends. So it holds binds only if the rules allow that one; connects and sends are held without.
    HeldPorts udp_connect, udp_bind;
    /// Landlock holds connects and sends to unix sockets with a path (ABI 9). It allows them beneath the
    /// grants of connect, and to each server that the run itself has bound. The rules allow the same
    /// (plan_sockets.cpp).
    bool sockets_held = false;
    /// Landlock holds where each datagram goes: sendto, sendmsg and sendmmsg are not notified.
    bool sends_held = false;
    /// Landlock lets sendmsg and sendmmsg reach the run's own unix sockets alone (ABI 9). So they are not
    /// notified, unless UDP can be sent. All else is decided: connects, binds, and sendto with an address.
    /// Where the only rules that open unix datagrams need this and Landlock cannot hold it, none can be made
    /// (plan_sockets.cpp).
    bool messages_held = false;
    /// Operations whose calls are notified, because some request may be contested or must be recorded.
    OperationSet notified;
    std::vector<Contest> contests;
    std::vector<RuleTier> tiers;
    /// Some hierarchy is notify-only for reading: no read-only open is continued.
    bool notify_only = false;
    /// Landlock permits some execution that the rules may deny. The kernel reads the path of a continued
    /// execve again and could land there. So each execve is decided twice: before it, and on the program that
    /// then runs.
    bool notify_only_execute = false;
    /// Kinds of datagram sockets that can be created.
    bool udp = false, unix_datagram = false;
    /// Look-ups of names are decided one by one (RuleSet::decides_look_ups). Every connect is then notified,
    /// as name servers are reached by it, and so is the creation of UDP sockets.
    bool look_ups = false;
    /// Some rule is about servers of the run's own, and connects or binds are decided one by one. What could
    /// take a port from a listener, or open it to others, is then notified or refused.
    bool run_servers = false;
    /// Connects or binds are decided one by one, and descriptors cannot be copied from the run. Its sockets
    /// are made on behalf then, and both are notified (supervisor/kernel/kept_sockets.hpp).
    bool sockets_on_behalf = false;
    /// `minimal` only: no rule could allow connect or bind of a unix socket. The filter must then refuse
    /// socket(AF_UNIX) with EACCES (socketpair stays), because connect is not notified.
    bool unix_closed = false;
    /// This ABI enforces these. Before ABI 3 (`truncation`) three calls must not be continued, even if
    /// `StaticGrants` allows modify. These are an open with O_TRUNC, an openat2 (its flags lie in memory) and
    /// truncate. Before ABI 6 signals to outside processes are decided one by one.
    bool truncation_held = false, signals_held = false;
    /// The run makes no set-user-id or set-group-id bit but on directories. Calls whose mode holds one are
    /// notified under every plan, and openat2 always. A run without --keep-capabilities has it.
    bool set_ids_left_out = false;
    /// Every program may read all of /proc, by the rules alone. Such a read is made on behalf, without a
    /// record.
    bool processes_read = false;
    /// The rules tell the agent from its tools. Both are in one Landlock domain, so the filter closes what
    /// would reach from one process into another, and signals are decided.
    bool parties = false;

    [[nodiscard]] const Contest* contest(Operation operation) const;
};

[[nodiscard]] Plan make_plan(const RuleSet& rules, const PlanInput& input);

/// The operations that the grants allow by path, for the handling of a call. Immutable except for `forget`.
class StaticGrants {
public:
    /// `outer` are the grants of the run around a nested one; null: there is none. Only what both grant is
    /// then granted, because the Landlock domains of both hold.
    explicit StaticGrants(const Plan& plan, const StaticGrants* outer = nullptr);
    ~StaticGrants();
    /// Whether Landlock alone allows all of `operations` on the object at `path`; never metadata, connect or
    /// bind. The object may be a created, removed or renamed name: for create and remove the grant must be on
    /// a directory strictly above. Any thread, no allocation; the cost depends on the depth of `path`.
    [[nodiscard]] bool allow(OperationSet operations, std::string_view path) const;
    /// Whether Landlock permits executing the object at `path`, even if notify-only. Any thread.
    [[nodiscard]] bool let_execute(std::string_view path) const;
    /// Forgets the grants at and beneath `path`, because that name gets a different object: it is removed,
    /// renamed or replaced. A file's grant goes with the old file. Call it before each such act, for files
    /// too. Any thread.
    enum class Departure : std::uint8_t { removed, moved };
    void forget(std::string_view path, Departure how = Departure::moved) const;
    /// Whether a Landlock grant may be attached to an object at or beneath `path`, and would move with it.
    [[nodiscard]] bool may_carry(std::string_view path) const;

private:
    struct Table;
    std::unique_ptr<const Table> table_;
    const StaticGrants* outer_;
};

}  // namespace callgate::rules
