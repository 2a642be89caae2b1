// Unix sockets with a path: when Landlock alone can hold connects and sends to them (ABI 9).
//
// LANDLOCK_ACCESS_FS_RESOLVE_UNIX allows two things. One is a socket of an outside process beneath a granted
// directory. The other is every server that the run itself has bound, wherever its name is now: no rule of
// Landlock limits that. So the rules must allow both already. Each rule that allows a bind allows the connect
// to the same names, and each that allows a connect names whole directories that exist. No rule restricts
// anything in them. Landlock knows no types: with datagram sockets, the directories are the same for both
// types.
//
// An attacker controls which names its servers have. A bind is decided, under every such plan. A server that
// moves afterwards stays one that a connect was allowed to.
//
// The second form leaves sendmsg and sendmmsg alone to the kernel, for rules that say "needs":
// "landlock-unix". sendmsg also carries what streams send, so a decision for each would cost every program.
// Nothing is granted then: a message reaches servers whose socket a process of the run has made. The name of
// each was bound by callgate, after a decision. The rules let the run connect to it too: each rule that
// opens datagrams allows both, and none restricts anything in its directories. Where a default asked about
// the bind of another name, a person has allowed that server. A message to an outside server is EACCES.
// Connects and sendto are decided, as is every bind: callgate makes them, and Landlock does not hold
// callgate.
#include <algorithm>
#include <cerrno>

#include "base/test_switch.hpp"
#include "rules/plan/plan_obstacles.hpp"

namespace callgate::rules::planning {

namespace {

using Directories = std::vector<std::string>;

bool restates_errno(const Rule& rule) { return rule.error && *rule.error != EACCES; }

/// Whether the rule's own exception takes the directory out, for every program.
bool leaves_out(const Rule& rule, const std::string& directory) {
    return rule.except && !names_asker(*rule.except) && !names_endpoints(*rule.except) &&
           !rule.except->protocol.stated() &&
           std::ranges::any_of(rule.except->unix_socket,
                               [&](const Glob& glob) { return glob.covers_hierarchy(directory); });
}

/// Whether the restricting rule may decide something beneath one of the directories.
bool reaches(const Rule& rule, const Directories& directories) {
    if (!check_enabled("sockets-restricted")) return false;
    if (rule.when.unix_socket.empty()) return true;
    std::vector<Glob> names = rule.when.unix_socket;
    std::erase_if(names, [](const Glob& glob) { return glob.text().starts_with('@'); });
    if (names.empty()) return false;
    std::vector<Obstacle> obstacles;
    add_obstacles(obstacles, rule, Operation::connect, names, false);
    return std::ranges::any_of(directories, [&](const std::string& directory) {
        return !leaves_out(rule, directory) && std::ranges::any_of(obstacles, [&](const Obstacle& one) {
            return reach(one, directory) != Reach::none;
        });
    });
}

class Sockets {
public:
    Sockets(const RuleSet& rules, const FileTree& tree) : rules_(rules), tree_(tree) {}

    /// Whether Landlock holds connects to sockets of the class, and the directories for it.
    [[nodiscard]] bool hold(SocketClass which, Directories& directories) const;

    /// Whether nothing that the rules say of datagrams would stop a message to the run's own servers.
    [[nodiscard]] bool reach_own() const;

private:
    [[nodiscard]] bool add(const Rule& rule, Directories& directories) const;

    const RuleSet& rules_;
    const FileTree& tree_;
};

/// Adds the directories of an allowing rule. False: it allows something else than directories that exist.
bool Sockets::add(const Rule& rule, Directories& directories) const {
    if (names_asker(rule.when) || rule.except || rule.when.unix_socket.empty()) return false;
    for (const Glob& glob : rule.when.unix_socket)
        for (const Glob::Branch& one : glob.branches()) {
            if (!one.hierarchy || !one.head.starts_with('/') ||
                tree_.kind(one.head) != FileTree::Kind::directory)
                return false;
            directories.push_back(one.head);
        }
    return true;
}

bool Sockets::hold(SocketClass which, Directories& directories) const {
    for (const Rule& rule : rules_.rules()) {
        const bool connects = concerns(rule, Operation::connect, which);
        if (!restricts(rule)) {
            if (connects && !add(rule, directories)) return false;
            if (!connects && concerns(rule, Operation::bind, which)) return false;
        } else if (rule.action != Action::deny || restates_errno(rule)) {
            if (connects || concerns(rule, Operation::bind, which)) return false;
        }
    }
    std::ranges::sort(directories);
    directories.erase(std::unique(directories.begin(), directories.end()), directories.end());
    return std::ranges::none_of(rules_.rules(), [&](const Rule& rule) {
        return restricts(rule) && concerns(rule, Operation::connect, which) && reaches(rule, directories);
    });
}

bool Sockets::reach_own() const {
    constexpr auto datagrams = SocketClass::unix_datagram;
    Directories directories;
    for (const Rule& rule : rules_.rules()) {
        const bool connects = concerns(rule, Operation::connect, datagrams);
        if (!restricts(rule)) {
            if (connects != concerns(rule, Operation::bind, datagrams)) return false;
            if (connects && !add(rule, directories)) return false;
        } else if (connects && rule.action != Action::deny) {
            return false;
        }
    }
    return std::ranges::none_of(rules_.rules(), [&](const Rule& rule) {
        return restricts(rule) && concerns(rule, Operation::connect, datagrams) && reaches(rule, directories);
    });
}

}  // namespace

bool holds_messages(const RuleSet& rules, const PlanInput& input) {
    return input.landlock_abi >= 9 && input.tree != nullptr && !input.sockets_on_behalf &&
           rules.fallback() != Action::allow && rules.leaves_datagrams_to_kernel() &&
           Sockets(rules, *input.tree).reach_own();
}

std::optional<std::vector<std::string>> plan_sockets(const RuleSet& rules, const PlanInput& input) {
    if (input.landlock_abi < 9 || input.tree == nullptr || rules.fallback() != Action::deny)
        return std::nullopt;
    const Sockets sockets(rules, *input.tree);
    Directories streams, datagrams;
    if (!sockets.hold(SocketClass::unix_stream, streams)) return std::nullopt;
    if (rules.opens_unix_datagram() &&
        (!sockets.hold(SocketClass::unix_datagram, datagrams) || datagrams != streams))
        return std::nullopt;
    return streams;
}

}  // namespace callgate::rules::planning
