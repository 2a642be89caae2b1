// A rule set compiled for evaluation: immutable, shared by all threads without a lock.
//
// `evaluate` is the one evaluator (docs/dev/architecture.md, invariant 6). It is pure and does not allocate.
// Rules are indexed by the literal heads of their patterns. So its cost depends on the depth of the path and
// the rules that share a head with it, not on the number of rules. The index is made on first use, because
// making the plan needs none: a start makes it while the agent confines itself (`prepare`).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rules/model/request.hpp"
#include "rules/model/rule.hpp"
#include "rules/model/verdict.hpp"

namespace callgate::rules {

class RuleSet {
public:
    /// `rules` in file order. `fallback` is the rule set's default: allow, ask or deny. Quiet rules stand in
    /// for a default that asks or denies. They win over no other rule, and over no other operation of a
    /// request that would be asked or denied aloud.
    RuleSet(std::vector<Rule> rules, Action fallback);
    RuleSet(RuleSet&&) noexcept;
    ~RuleSet();

    /// From now on every verdict is the stricter one of both sets: a nested run narrows, and never widens.
    /// `outer` outlives this set. Call it before the set is shared.
    void narrow(const RuleSet& outer) { outer_ = &outer; }
    /// The rules of the run around this one; null: there is none. `rules`, `matching` and `fallback` are of
    /// one level.
    [[nodiscard]] const RuleSet* outer() const { return outer_; }

    /// Makes the index, so that no call waits for it. Any thread, more than once.
    void prepare() const;

    /// The strictest verdict over the request's operations: kill > deny > ask > allow > default. If several
    /// rules have the winning action, the first in file order names the verdict. A default of `ask` means
    /// deny for execute (decided_by fallback). Any thread.
    [[nodiscard]] Verdict evaluate(const Request& request) const;

    /// Every rule that matches the request for `operation`, in file order (for `explain`).
    [[nodiscard]] std::vector<const Rule*> matching(const Request& request, Operation operation) const;

    /// All but the quiet ones: these open nothing and close nothing that the default does not.
    [[nodiscard]] std::span<const Rule> rules() const;
    [[nodiscard]] std::span<const Rule> quiet_rules() const;
    [[nodiscard]] Action fallback() const;
    /// Whether any request can get the verdict `ask`.
    [[nodiscard]] bool may_ask() const;

    /// Whether some rule has a `program` condition, so that requests must name theirs.
    [[nodiscard]] bool needs_program() const;
    /// Whether a quiet rule has one: then a request that the default decided is evaluated again with its
    /// program.
    [[nodiscard]] bool quiet_needs_program() const;
    /// Whether some rule has an `argv` condition, so that requests to execute must name their arguments.
    [[nodiscard]] bool needs_arguments() const;
    /// Whether some rule has a `party` condition: agent and tools are then kept apart.
    [[nodiscard]] bool needs_party() const;
    /// Whether some rule says "${own}": `Endpoint::own` is then looked at.
    [[nodiscard]] bool needs_own_address() const;
    /// Whether some rule has a `server` condition, so that endpoints must say whether they are the run's own.
    [[nodiscard]] bool needs_run_servers() const;
    /// See below.
    [[nodiscard]] bool decides_look_ups() const;
    /// Whether an allow or ask rule names protocol "udp" (internet) or "datagram" (unix): only then can such
    /// sockets be made.
    [[nodiscard]] bool opens_udp() const;
    [[nodiscard]] bool opens_unix_datagram() const;
    /// Whether each rule that opens unix datagrams says "needs": "landlock-unix".
    [[nodiscard]] bool leaves_datagrams_to_kernel() const;

private:
    /// Whether it holds for a level around this one.
    [[nodiscard]] bool some_level(bool (RuleSet::*what)() const) const;

    struct Contents;
    std::unique_ptr<const Contents> contents_;
    const RuleSet* outer_ = nullptr;
};

/// Whether look-ups of names are decided one by one: a rule about connects names hosts, or the default asks.
/// Not where the default asks and a rule opens UDP: such rules say themselves which name servers may be
/// asked.
[[nodiscard]] bool decides_look_ups(std::span<const Rule> rules, Action fallback);

}  // namespace callgate::rules
