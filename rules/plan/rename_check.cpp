#include "rules/plan/rename_check.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#include "base/made_once.hpp"
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

/// A rule speaks of no names, of some, or of every name, in its conditions or in its exception.
enum class Names : std::uint8_t { none, some, every };

Names names_in(const std::vector<Glob>& globs) { return globs.empty() ? Names::every : Names::some; }

/// The part of a rule that depends on a name.
struct NamedRule {
    const Rule* rule;
    OperationSet operations;
    Names when, except = Names::none;
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

    explicit NameRemainders(const NamedRule& rule) {
        if (rule.when == Names::every) when.add({"/**", 0});
        if (rule.except == Names::every) except.add({"/**", 0});
    }
    void finish(const NamedRule& rule) {
        when.finish();
        except.finish();
        // If the exception surely covers all of it, the rule has no effect here.
        if (rule.except != Names::none && !rule.except_conditional && except.cover(when)) when = {};
    }
};

/// A branch of a rule's pattern, to be found by its literal head.
struct NamedBranch {
    NamedBranch(std::size_t number, bool of_except, const Glob& of_glob, std::size_t at)
        : rule(number), except(of_except), glob(&of_glob), branch(at), pattern(of_glob.branches()[at]) {}
    [[nodiscard]] const std::string& head() const { return glob->branches()[branch].head; }

    std::size_t rule;  // its place among the rules
    bool except;
    const Glob* glob;
    std::size_t branch;
    BranchPattern pattern;
};

/// All of a rule set, for moves.
class NamedRules {
public:
    explicit NamedRules(const RuleSet& set);

    [[nodiscard]] const std::vector<NamedRule>& rules() const { return rules_; }
    /// Calls `visit(branch)` for the branches whose heads are `path` or above it, and with `beneath` for
    /// those that lie there.
    template <class Visit>
    void each_near(std::string_view path, bool beneath, Visit visit) const;

private:
    void add(const Rule& rule, OperationSet operations, const std::vector<Glob> Conditions::*names);
    void add_branches(bool except, const std::vector<Glob>& globs);

    std::vector<NamedRule> rules_;
    std::vector<NamedBranch> branches_;  // in the PathOrder of their heads
};

NamedRules::NamedRules(const RuleSet& set) {
    for (const Rule& rule : set.rules()) {
        if (planning::decides_files(rule)) add(rule, rule.operations & file_operations, &Conditions::path);
        const Protocols& stated = rule.when.protocol;
        if (planning::decides_sockets(rule) && (!stated.stated() || stated.stream || stated.datagram))
            add(rule, rule.operations & network_operations, &Conditions::unix_socket);
    }
    std::ranges::stable_sort(branches_, planning::PathOrder(), &NamedBranch::head);
}

void NamedRules::add(const Rule& rule, OperationSet operations, const std::vector<Glob> Conditions::*names) {
    NamedRule named{.rule = &rule,
                    .operations = operations,
                    .when = names_in(rule.when.*names),
                    .conditional = more_than_path(rule.when)};
    add_branches(false, rule.when.*names);
    if (rule.except) {
        named.except = names_in((*rule.except).*names);
        named.except_conditional = more_than_path(*rule.except);
        add_branches(true, (*rule.except).*names);
    }
    rules_.push_back(named);
}

/// Adds branches of the rule that is added next. An abstract socket has no name that can be moved.
void NamedRules::add_branches(bool except, const std::vector<Glob>& globs) {
    for (const Glob& glob : globs)
        for (std::size_t branch = 0; branch < glob.branches().size(); ++branch)
            if (glob.branches()[branch].head.starts_with('/'))
                branches_.emplace_back(rules_.size(), except, glob, branch);
}

template <class Visit>
void NamedRules::each_near(std::string_view path, bool beneath, Visit visit) const {
    const auto first_from = [this](std::string_view head) {
        return std::ranges::lower_bound(branches_, head, planning::PathOrder(), &NamedBranch::head);
    };
    const auto at = [&](std::string_view head) {
        for (auto near = first_from(head); near != branches_.end() && near->head() == head; ++near)
            visit(*near);
    };
    at("/");
    for (std::size_t end = path.find('/', 1); end < path.size(); end = path.find('/', end + 1))
        at(path.substr(0, end));
    if (path != "/") at(path);
    if (!beneath) return;
    for (auto near = first_from(path); near != branches_.end() && at_or_beneath(near->head(), path); ++near)
        if (near->head() != path) visit(*near);
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
    [[nodiscard]] const NamedRules& named() const {
        return named_.get([this] { return NamedRules(set); });
    }
    [[nodiscard]] const LinkNames& links() const {
        std::call_once(links_made_, [this] { links_.emplace(set); });
        return *links_;
    }
    /// The first operation that becomes freer if the object at `old_path` gets the name `new_path`.
    [[nodiscard]] Finding freed(const MoveRequest& move, OperationSet operations) const;

private:
    MadeOnce<NamedRules> named_;
    mutable std::once_flag links_made_;
    mutable std::optional<LinkNames> links_;
};

namespace {

/// A comparison of two names: the remainders of each rule beneath both.
class Comparison {
public:
    Comparison(const NamedRules& rules, Action fallback, const MoveRequest& move);
    [[nodiscard]] Finding freed(OperationSet operations) const;

private:
    struct Sides {
        explicit Sides(const NamedRule& of) : rule(&of), from(of), to(of) {}
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

/// For a file, only a match counts; for a directory, everything beneath it.
Comparison::Comparison(const NamedRules& rules, Action fallback, const MoveRequest& move)
    : fallback_(fallback) {
    const std::vector<NamedRule>& named = rules.rules();
    std::map<std::size_t, Sides> found;  // by the rules' order
    const auto sides_of = [&](std::size_t rule) -> Sides& {
        return found.try_emplace(rule, named[rule]).first->second;
    };
    for (std::size_t rule = 0; rule < named.size(); ++rule)
        if (named[rule].when == Names::every) static_cast<void>(sides_of(rule));
    const bool directory = move.kind == MovedKind::directory;
    const auto look = [&](std::string_view path, Side side) {
        rules.each_near(path, directory, [&](const NamedBranch& near) {
            NameRemainders& remainders = sides_of(near.rule).*side;
            PatternRemainders& into = near.except ? remainders.except : remainders.when;
            if (directory) return near.pattern.remainders(path, into);
            const std::string& head = near.head();
            const std::size_t above = head == "/" && path != "/" ? 0 : head.size();
            if (near.glob->remainder_matches(near.branch, path.substr(above))) into.add({"", 0});
        });
    };
    look(move.old_path, &Sides::from);
    look(move.new_path, &Sides::to);
    for (auto& [rule, sides] : found) {
        sides.from.finish(named[rule]);
        sides.to.finish(named[rule]);
        if (!sides.from.when.empty() || !sides.to.when.empty()) sides_.push_back(std::move(sides));
    }
}

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

Finding RenameCheck::Rules::freed(const MoveRequest& move, OperationSet operations) const {
    return Comparison(named(), set.fallback(), move).freed(operations);
}

RenameCheck::RenameCheck(const RuleSet& rules, const StaticGrants& grants, const RenameCheck* outer)
    : rules_(std::make_unique<const Rules>(rules, grants)), outer_(outer) {}
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

bool RenameCheck::may_carry_links(std::string_view old_path, std::string_view new_path) const {
    if (outer_ != nullptr && outer_->may_carry_links(old_path, new_path)) return true;
    return rules_->links().denies_beneath(new_path) && !rules_->links().denies_beneath(old_path);
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
