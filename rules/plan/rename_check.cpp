#include "rules/plan/rename_check.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/test_switch.hpp"
#include "rules/plan/pattern_remainder.hpp"
#include "rules/plan/plan_parts.hpp"

namespace callgate::rules {

namespace {

constexpr OperationSet of_file{Operation::read, Operation::modify, Operation::remove, Operation::metadata,
                               Operation::execute};
constexpr OperationSet of_socket = of_file | OperationSet{Operation::connect};
constexpr OperationSet of_directory = file_operations | network_operations;
constexpr OperationSet carrying_in{Operation::create, Operation::modify};

OperationSet concerning(MovedKind kind) {
    switch (kind) {
        case MovedKind::file:
        case MovedKind::link:
            return of_file;
        case MovedKind::socket:
            return of_socket;
        case MovedKind::directory:
            return of_directory;
    }
    return of_directory;
}

/// The path patterns of some conditions. An empty list matches every path.
struct Patterns {
    const std::vector<Glob>* globs = nullptr;
    std::vector<BranchPattern> branches;

    void add(const Glob::Branch& branch) {
        if (branches.empty()) head = branch.head;
        while (!at_or_beneath(branch.head, head)) head.resize(std::max<std::size_t>(head.rfind('/'), 1));
        branches.emplace_back(branch);
    }
    explicit Patterns(const std::vector<Glob>& from) : globs(&from) {
        for (const Glob& glob : from)
            for (const Glob::Branch& branch : glob.branches())
                if (branch.head.starts_with('/')) add(branch);
    }
    std::string head;  // common to all branches, so that most rules are skipped at once

    [[nodiscard]] bool touch(std::string_view path) const {
        return globs->empty() || at_or_beneath(path, head) || at_or_beneath(head, path);
    }
    /// For a file, only a match counts; for a directory, everything beneath it.
    [[nodiscard]] PatternRemainders beneath(std::string_view path, MovedKind kind) const;
};

PatternRemainders Patterns::beneath(std::string_view path, MovedKind kind) const {
    PatternRemainders remainders;
    if (globs->empty()) {
        remainders.add({"/**", 0});
    } else if (kind == MovedKind::directory) {
        for (const BranchPattern& branch : branches) branch.remainders(path, remainders);
    } else if (std::any_of(globs->begin(), globs->end(),
                           [&](const Glob& glob) { return glob.matches(path); })) {
        remainders.add({"", 0});
    }
    remainders.finish();
    return remainders;
}

/// The part of a rule that depends on a name.
struct NamedRule {
    const Rule* rule;
    OperationSet operations;
    Patterns when;
    std::optional<Patterns> except;
    /// True if other conditions must hold as well, so that it covers no other rule; the same for its
    /// exception.
    bool conditional = false, except_conditional = false;
};

bool more_than_path(const Conditions& conditions) {
    return planning::names_asker(conditions) || planning::names_endpoints(conditions) ||
           conditions.protocol.stated();
}

/// The remainders of a rule beneath one name.
struct NameRemainders {
    PatternRemainders when, except;
};

NameRemainders remainders_of(const NamedRule& rule, std::string_view path, MovedKind kind) {
    NameRemainders remainders{rule.when.beneath(path, kind), {}};
    if (!rule.except) return remainders;
    remainders.except = rule.except->beneath(path, kind);
    // If the exception surely covers all of it, the rule has no effect here.
    if (!rule.except_conditional && remainders.except.cover(remainders.when)) remainders.when = {};
    return remainders;
}

struct Finding {
    const NamedRule* rule = nullptr;
    Operation operation = Operation::read;
    MoveVerdict::Because because = MoveVerdict::Because::nothing;
    [[nodiscard]] bool found() const { return rule != nullptr; }
};

}  // namespace

struct RenameCheck::Rules {
    const RuleSet& set;
    const StaticGrants& grants;

    Rules(const RuleSet& rules, const StaticGrants& static_grants) : set(rules), grants(static_grants) {}
    /// Made on the first move: most runs move nothing.
    [[nodiscard]] const std::vector<NamedRule>& named() const {
        std::call_once(made_, [this] { make(); });
        return named_;
    }
    [[nodiscard]] const LinkNames& links() const {
        std::call_once(links_made_, [this] { links_.emplace(set); });
        return *links_;
    }
    /// The first operation that becomes freer if the object at `old_path` gets the name `new_path`.
    [[nodiscard]] Finding freed(const MoveRequest& move, OperationSet operations) const;

private:
    void make() const;
    void add(const Rule& rule, OperationSet operations, const std::vector<Glob> Conditions::*names) const;

    mutable std::once_flag made_;
    mutable std::vector<NamedRule> named_;
    mutable std::once_flag links_made_;
    mutable std::optional<LinkNames> links_;
};

namespace {

/// A comparison of two names: the remainders of each rule beneath both.
class Comparison {
public:
    Comparison(const std::vector<NamedRule>& rules, Action fallback, const MoveRequest& move)
        : fallback_(fallback) {
        for (const NamedRule& rule : rules) {
            if (!rule.when.touch(move.old_path) && !rule.when.touch(move.new_path)) continue;
            NameRemainders from = remainders_of(rule, move.old_path, move.kind);
            NameRemainders to = remainders_of(rule, move.new_path, move.kind);
            if (!from.when.empty() || !to.when.empty())
                sides_.push_back({&rule, std::move(from), std::move(to)});
        }
    }
    [[nodiscard]] Finding freed(OperationSet operations) const;

private:
    struct Sides {
        const NamedRule* rule;
        NameRemainders from, to;
    };
    using Side = NameRemainders Sides::*;

    [[nodiscard]] Action fallback(Operation operation) const {
        const bool denies = fallback_ == Action::ask && operation == Operation::execute;
        return denies ? Action::deny : fallback_;
    }
    [[nodiscard]] bool covered(const PatternRemainders& what, Side side, Operation operation, Action least,
                               Action most) const;
    [[nodiscard]] bool open(Operation operation, Action weaker_than) const;
    [[nodiscard]] bool lost(const Sides& sides, Operation operation) const;
    [[nodiscard]] bool gained(const Sides& sides, Operation operation) const;

    Action fallback_;
    std::vector<Sides> sides_;
};

/// Whether other rules with an action in this range surely cover `what` on that side.
bool Comparison::covered(const PatternRemainders& what, Side side, Operation operation, Action least,
                         Action most) const {
    return std::any_of(sides_.begin(), sides_.end(), [&](const Sides& other) {
        const NamedRule& rule = *other.rule;
        if (rule.conditional || !rule.operations.contains(operation)) return false;
        if (rule.rule->action < least || rule.rule->action > most) return false;
        const NameRemainders& remainders = other.*side;
        return remainders.except.empty() && remainders.when.cover(what);
    });
}

/// Whether some object at or beneath the new name could get a weaker verdict.
bool Comparison::open(Operation operation, Action weaker_than) const {
    if (fallback(operation) < weaker_than) return true;
    return std::any_of(sides_.begin(), sides_.end(), [&](const Sides& other) {
        return other.rule->operations.contains(operation) && other.rule->rule->action < weaker_than &&
               !other.to.when.empty();
    });
}

bool Comparison::lost(const Sides& sides, Operation operation) const {
    if (sides.from.when.empty()) return false;
    if (sides.to.when.cover(sides.from.when) && sides.from.except.cover(sides.to.except)) return false;
    const Action weakest = std::min(sides.rule->rule->action, Action::deny);
    return open(operation, weakest) &&
           !covered(sides.from.when, &Sides::to, operation, weakest, Action::kill);
}

bool Comparison::gained(const Sides& sides, Operation operation) const {
    const Action action = sides.rule->rule->action;
    if (sides.to.when.empty() || fallback(operation) <= action) return false;
    if (sides.from.when.cover(sides.to.when) && sides.to.except.cover(sides.from.except)) return false;
    return !covered(sides.to.when, &Sides::from, operation, Action::allow, action) &&
           !covered(sides.to.when, &Sides::to, operation, Action::deny, Action::kill);
}

Finding Comparison::freed(OperationSet operations) const {
    for (const Sides& sides : sides_) {
        const Action action = sides.rule->rule->action;
        for (const Operation operation : operations& sides.rule->operations) {
            if (action != Action::allow && lost(sides, operation))
                return {sides.rule, operation, MoveVerdict::Because::restriction_lost};
            if (action <= Action::ask && gained(sides, operation))
                return {sides.rule, operation, MoveVerdict::Because::allowance_gained};
        }
    }
    return {};
}

}  // namespace

void RenameCheck::Rules::make() const {
    for (const Rule& rule : set.rules()) {
        if (planning::decides_files(rule)) add(rule, rule.operations & file_operations, &Conditions::path);
        const Protocols& stated = rule.when.protocol;
        if (planning::decides_sockets(rule) && (!stated.stated() || stated.stream || stated.datagram))
            add(rule, rule.operations & network_operations, &Conditions::unix_socket);
    }
}

void RenameCheck::Rules::add(const Rule& rule, OperationSet operations,
                             const std::vector<Glob> Conditions::*names) const {
    NamedRule named{&rule, operations, Patterns(rule.when.*names), std::nullopt, more_than_path(rule.when),
                    false};
    if (rule.except) {
        named.except.emplace((*rule.except).*names);
        named.except_conditional = more_than_path(*rule.except);
    }
    named_.push_back(std::move(named));
}

Finding RenameCheck::Rules::freed(const MoveRequest& move, OperationSet operations) const {
    return Comparison(named(), set.fallback(), move).freed(operations);
}

RenameCheck::RenameCheck(const RuleSet& rules, const StaticGrants& grants, const RenameCheck* outer)
    : rules_(std::make_unique<const Rules>(rules, grants)), outer_(outer) {}
RenameCheck::RenameCheck(RenameCheck&&) noexcept = default;
RenameCheck::~RenameCheck() = default;

Verdict RenameCheck::evaluate_link(std::string_view path, int error) const {
    if (outer_ != nullptr)
        if (const Verdict verdict = outer_->evaluate_link(path, error); verdict.action != Action::allow)
            return verdict;
    const Rule* const rule = check_enabled("link-names") ? rules_->links().reserving(path) : nullptr;
    if (rule == nullptr) return {.action = Action::allow, .operation = Operation::create};
    return {.action = Action::deny,
            .decided_by = DecidedBy::rule,
            .rule = rule,
            .operation = Operation::create,
            .error = error,
            .nested = outer_ != nullptr};
}

bool RenameCheck::reserves(std::string_view path) const {
    return rules_->links().reserving(path) != nullptr || (outer_ != nullptr && outer_->reserves(path));
}

std::vector<LinkNames::Reserved> RenameCheck::reserved_beneath(std::string_view directory) const {
    auto all = rules_->links().beneath(directory);
    if (outer_ == nullptr) return all;
    const auto more = outer_->reserved_beneath(directory);
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

MoveVerdict RenameCheck::evaluate(const MoveRequest& request) const {
    if (outer_ != nullptr)
        if (MoveVerdict verdict = outer_->evaluate(request); !verdict.allowed) return verdict;
    if (request.kind == MovedKind::link) {
        const Verdict verdict = evaluate_link(request.new_path, EXDEV);
        if (verdict.action != Action::allow) return {false, MoveVerdict::Because::link_reserved, verdict};
    }
    if (!check_enabled("rename-check")) return {};
    Finding finding = rules_->freed(request, concerning(request.kind));
    if (!finding.found() && check_enabled("moved-grants") && rules_->grants.may_carry(request.old_path)) {
        const MoveRequest back{request.new_path, request.old_path, request.kind};
        finding = rules_->freed(back, concerning(request.kind) & planning::held_by_path);
        finding.because = MoveVerdict::Because::grant_would_move;
    }
    MoveVerdict verdict;
    if (!finding.found()) return verdict;
    verdict.allowed = false;
    verdict.because = finding.because;
    verdict.verdict = {.action = Action::deny,
                       .decided_by = DecidedBy::rule,
                       .rule = finding.rule->rule,
                       .operation = finding.operation,
                       .error = finding.rule->rule->error.value_or(EXDEV),
                       .nested = outer_ != nullptr};
    return verdict;
}

bool RenameCheck::may_carry_in(std::string_view old_path, std::string_view new_path) const {
    if (outer_ != nullptr && outer_->may_carry_in(old_path, new_path)) return true;
    return check_enabled("carried-in-entries") &&
           rules_->freed({new_path, old_path, MovedKind::directory}, carrying_in).found();
}

Verdict RenameCheck::evaluate_entry(std::string_view new_path_of_entry, bool directory,
                                    std::string_view program, Party party) const {
    return rules_->set.evaluate({.operations = directory ? OperationSet(Operation::create) : carrying_in,
                                 .object = FileObject{new_path_of_entry},
                                 .program = program,
                                 .arguments = {},
                                 .party = party});
}

}  // namespace callgate::rules
