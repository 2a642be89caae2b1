// The parts of make_plan: paths and ports are planned separately and combined in plan.cpp.
//
// Private to rules/plan. Pure values; pointers point into the rule set of the call.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/at_or_beneath.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::rules::planning {

/// Operations that Landlock can enforce by path.
inline constexpr OperationSet held_by_path{Operation::read, Operation::modify, Operation::create,
                                           Operation::remove, Operation::execute};
/// The operations that a grant on the file itself gives, and those that only a grant on its directory gives.
inline constexpr OperationSet held_by_file{Operation::read, Operation::modify, Operation::execute};
inline constexpr OperationSet held_by_parent{Operation::create, Operation::remove};

/// Sorts '/' before every other byte, so that the objects beneath a directory directly follow it.
struct PathOrder {
    [[nodiscard]] bool operator()(std::string_view left, std::string_view right) const;
};
[[nodiscard]] bool names_asker(const Conditions& conditions);
[[nodiscard]] bool names_endpoints(const Conditions& conditions);
/// Whether the rule can match files, or unix sockets, as in rule_match.cpp. No path then means every path.
[[nodiscard]] bool decides_files(const Rule& rule);
[[nodiscard]] bool decides_sockets(const Rule& rule);
[[nodiscard]] inline bool restricts(const Rule& rule) { return rule.action != Action::allow; }
/// "a", "a and b", "a, b and 3 more"
[[nodiscard]] std::string listed(const std::vector<std::string>& words);

/// An operation that the rules may allow and no grant covers: its calls are decided one by one.
struct Loss {
    std::string path;
    OperationSet operations;
    const Rule* allow = nullptr;  // null: the default
    std::string by;               // id of the rule that may restrict it; "" for another reason
    std::string why;              // follows "is decided call by call: "
};

struct PathPlan {
    std::vector<Grant> grants;  // sorted, each directory before what lies beneath it
    std::vector<Loss> losses;   // those that no other grant covers
    bool processes_read = false;
    /// The operations that the grants allow at `path` and, if it is a directory, beneath it.
    [[nodiscard]] OperationSet held_at(std::string_view path) const;
};
using GrantsByPath = std::map<std::string, Grant, PathOrder>;
[[nodiscard]] PathPlan merge_grants(GrantsByPath&& grants, std::vector<Loss> losses);
/// `losses`: whether losses are collected.
[[nodiscard]] PathPlan plan_paths(const RuleSet& rules, bool losses, const PlanInput& input);

/// Whether `operation` is allowed at every path for every program.
[[nodiscard]] bool wholly_allowed(const RuleSet& rules, Operation operation);

/// Collects the reasons for which an operation is notified. Without `kept` only the fact is kept.
class Reasons {
public:
    explicit Reasons(bool kept) : kept_(kept) {}

    /// `sentence` is a text, or a function that returns it and is called only if reasons are kept.
    template <typename Sentence>
    void add(std::string_view id, const Sentence& sentence) {
        any_ = true;
        if (!kept_) return;
        if constexpr (std::is_invocable_v<Sentence>)
            put(id, sentence());
        else
            put(id, sentence);
    }
    /// Adds the ids of `others`, with `sentence` as the reason.
    void add_all(const Reasons& others, std::string_view sentence);
    [[nodiscard]] bool empty() const { return !any_; }
    [[nodiscard]] bool kept() const { return kept_; }
    [[nodiscard]] const std::vector<std::string>& because() const { return because_; }
    [[nodiscard]] const std::vector<std::string>& why() const { return why_; }
    /// Both lists, one after the other.
    [[nodiscard]] Reasons joined(const Reasons& other) const;

private:
    void put(std::string_view id, std::string_view sentence);

    bool kept_;
    bool any_ = false;
    std::vector<std::string> because_, why_;
    std::unordered_set<std::string> seen_;
};

/// The plan of one network operation.
struct NetworkPlan {
    explicit NetworkPlan(bool kept) : contested(kept), minimal(kept), minimal_unix(kept) {}
    HeldPorts tcp, udp;
    /// No rule could allow it on any unix socket.
    bool unix_shut = false;
    /// Reasons if every decision is recorded (`contested`), and those that remain with `minimal`.
    Reasons contested, minimal, minimal_unix;  // minimal_unix: of unix sockets, unless they are closed
};
/// `sockets_held`: Landlock holds the operation on unix sockets.
[[nodiscard]] NetworkPlan plan_network(const RuleSet& rules, Operation operation, int abi, bool sockets_held,
                                       bool reasons);

/// The classes of sockets that rules tell apart.
enum class SocketClass { tcp, udp, unix_stream, unix_datagram };
/// Whether the rule can match something of the class.
[[nodiscard]] bool concerns(const Rule& rule, Operation operation, SocketClass which);
/// The directories for which Landlock can hold connects to unix sockets, if it then allows exactly what the
/// rules allow.
[[nodiscard]] std::optional<std::vector<std::string>> plan_sockets(const RuleSet& rules,
                                                                   const PlanInput& input);
/// Whether Landlock may hold `sendmsg` to the sockets of the run itself.
[[nodiscard]] bool holds_messages(const RuleSet& rules, const PlanInput& input);
/// Whether the rule, or part of it, concerns datagram sockets alone.
[[nodiscard]] bool only_datagrams(const Rule& rule);

[[nodiscard]] std::vector<RuleTier> tiers_of(const RuleSet& rules, const Plan& plan,
                                             const std::vector<Loss>& losses);

}  // namespace callgate::rules::planning
