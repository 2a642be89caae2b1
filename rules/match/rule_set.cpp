#include "rules/match/rule_set.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/made_once.hpp"
#include "base/test_switch.hpp"
#include "rules/match/endpoint_index.hpp"
#include "rules/match/head_index.hpp"
#include "rules/match/rule_match.hpp"

namespace callgate::rules {

namespace {

/// Ranks rules by strictness, then by file order: the greater wins. Zero means no rule.
using Rank = std::uint64_t;

constexpr Rank rank_of(Action action) { return (2 * static_cast<Rank>(action) + 2) << 32; }
constexpr Rank rank_of(Action action, std::uint32_t rule) { return rank_of(action) | (UINT32_MAX - rule); }
/// A quiet denial stands between allow and ask: beside an operation that would be asked or denied aloud, it
/// hides nothing.
constexpr Rank quiet_rank = rank_of(Action::allow) + (Rank{1} << 32);
constexpr Rank rank_of_quiet(std::uint32_t rule) { return quiet_rank | (UINT32_MAX - rule); }
constexpr Action action_of(Rank rank) {
    return rank >> 32 == quiet_rank >> 32 ? Action::deny : static_cast<Action>((rank >> 33) - 1);
}

int default_error(Operation operation) {
    switch (operation) {
        case Operation::connect:
            return ECONNREFUSED;
        case Operation::execute:
            return EPERM;
        default:
            return EACCES;
    }
}

OperationSet operations_of(const Object& object) {
    return std::holds_alternative<FileObject>(object) ? file_operations : network_operations;
}

/// Prepares all patterns for matching, so that no evaluation has to.
void prepare(const Conditions& conditions) {
    for (const auto* globs : {&conditions.path, &conditions.unix_socket, &conditions.program})
        for (const Glob& glob : *globs) glob.prepare();
    if (!conditions.argv) return;
    for (const Glob& glob : *conditions.argv) glob.prepare();
}

void prepare(const Rule& rule) {
    prepare(rule.when);
    if (rule.except) prepare(*rule.except);
}

bool opens_udp_sockets(const Rule& rule) {
    return rule.action < Action::deny && rule.operations.intersects(network_operations) &&
           rule.when.protocol.udp;
}

bool names_hosts(const Rule& rule) {
    return rule.operations.contains(Operation::connect) &&
           (!rule.when.host.empty() || (rule.except && !rule.except->host.empty()));
}

/// The index for evaluation: pointers into the rules.
class Index {
public:
    explicit Index(std::span<const Rule> rules);

    /// The fields of each rule that a search reads, packed densely.
    struct Digest {
        OperationSet operations;
        Action action = Action::deny;
        /// True if the name index tests all conditions of the rule.
        bool only_name = false;
    };
    std::vector<Digest> digests;
    HeadIndex files, sockets;
    /// Rules without a name condition: for every file, for every unix socket.
    std::vector<std::uint32_t> all_files, all_sockets;
    EndpointIndex endpoints;
    /// Rules that can decide about the look-up of a name.
    std::vector<std::uint32_t> look_ups;

private:
    void add(std::uint32_t number, const Rule& rule);
    void add_network(std::uint32_t number, const Rule& rule);
};

Index::Index(std::span<const Rule> rules) {
    digests.reserve(rules.size());
    std::size_t branches = 0;
    for (const Rule& rule : rules)
        for (const Glob& glob : rule.when.path) branches += glob.branches().size();
    files.reserve(branches);
    for (std::uint32_t number = 0; number < rules.size(); ++number) {
        prepare(rules[number]);
        add(number, rules[number]);
    }
    files.freeze();
    sockets.freeze();
}

void Index::add(std::uint32_t number, const Rule& rule) {
    const Conditions& when = rule.when;
    digests.push_back(
        {rule.operations, rule.action, when.program.empty() && !when.argv && !when.party && !rule.except});
    if (rule.operations.intersects(network_operations)) add_network(number, rule);
    const bool network = !when.host.empty() || !when.address.empty() || !when.port.empty();
    if (!rule.operations.intersects(file_operations) || network) return;
    for (const Glob& glob : when.path) files.add(number, glob);
    if (when.path.empty() && when.unix_socket.empty() && !when.protocol.stated()) all_files.push_back(number);
}

void Index::add_network(std::uint32_t number, const Rule& rule) {
    const Conditions& when = rule.when;
    if (when.path.empty() && when.unix_socket.empty()) {
        endpoints.add(number, when);
        if (rule.operations.contains(Operation::connect)) look_ups.push_back(number);
    }
    if (!when.host.empty() || !when.address.empty() || !when.port.empty()) return;
    for (const Glob& glob : when.unix_socket) sockets.add(number, glob);
    if (when.unix_socket.empty() && when.path.empty()) all_sockets.push_back(number);
}

}  // namespace

bool decides_look_ups(std::span<const Rule> rules, Action fallback) {
    if (std::ranges::any_of(rules, names_hosts)) return true;
    return fallback == Action::ask && std::ranges::none_of(rules, opens_udp_sockets);
}

struct RuleSet::Contents {
    std::vector<Rule> rules, quiet;
    Action fallback = Action::deny;
    bool needs_program = false, quiet_needs_program = false, needs_arguments = false, needs_party = false;
    bool needs_own_address = false, needs_run_servers = false;
    bool opens_udp = false, opens_unix_datagram = false, look_ups = false;
    bool decides_datagrams = false;  // one that opens them does not leave them to the kernel
    MadeOnce<Index> index;

    class Search;

    Contents(std::vector<Rule> all, Action otherwise);
    void note(const Rule& rule);
    [[nodiscard]] const Index& indexed() const {
        return index.get([this] {
            for (const Rule& rule : quiet) rules::prepare(rule);
            return Index(rules);
        });
    }
    [[nodiscard]] Rank fallback_rank(const Request& request, Operation operation) const;
    [[nodiscard]] Verdict verdict(Rank rank, Operation operation) const;
};

RuleSet::Contents::Contents(std::vector<Rule> all, Action otherwise)
    : rules(std::move(all)), fallback(otherwise) {
    const auto last =
        std::stable_partition(rules.begin(), rules.end(), [](const Rule& one) { return !one.quiet; });
    quiet.assign(std::make_move_iterator(last), std::make_move_iterator(rules.end()));
    rules.erase(last, rules.end());
    for (const Rule& rule : quiet) note(rule);
    quiet_needs_program = std::exchange(needs_program, false);
    for (const Rule& rule : rules) note(rule);
    look_ups = rules::decides_look_ups(rules, fallback);
}

void RuleSet::Contents::note(const Rule& rule) {
    const Conditions& when = rule.when;
    needs_program = needs_program || !when.program.empty() || (rule.except && !rule.except->program.empty());
    needs_arguments = needs_arguments || when.argv || (rule.except && rule.except->argv);
    needs_party = needs_party || when.party || (rule.except && rule.except->party);
    needs_own_address = needs_own_address || when.own_address || (rule.except && rule.except->own_address);
    needs_run_servers = needs_run_servers || when.run_server || (rule.except && rule.except->run_server);
    const bool opens = (rule.action == Action::allow || rule.action == Action::ask) &&
                       rule.operations.intersects(network_operations);
    opens_udp = opens_udp || opens_udp_sockets(rule);
    opens_unix_datagram = opens_unix_datagram || (opens && when.protocol.datagram);
    decides_datagrams = decides_datagrams || (opens && when.protocol.datagram && !rule.needs_landlock_unix);
}

Rank RuleSet::Contents::fallback_rank(const Request& request, Operation operation) const {
    if (fallback == Action::allow) return rank_of(fallback);
    const auto* file = std::get_if<FileObject>(&request.object);
    const bool nameless = file != nullptr && file->unlinked && check_enabled("nameless");
    if (nameless || operation == Operation::execute) return rank_of(Action::deny);
    for (std::uint32_t number = 0; number < quiet.size(); ++number)
        if (rule_matches(quiet[number], request, operation, fallback))
            return rank_of_quiet(static_cast<std::uint32_t>(rules.size()) + number);
    return rank_of(fallback);
}

Verdict RuleSet::Contents::verdict(Rank rank, Operation operation) const {
    Verdict verdict;
    verdict.action = action_of(rank);
    verdict.operation = operation;
    if (const std::size_t number = UINT32_MAX - static_cast<std::uint32_t>(rank);
        number < rules.size() + quiet.size()) {
        verdict.decided_by = DecidedBy::rule;
        verdict.rule = number < rules.size() ? &rules[number] : &quiet[number - rules.size()];
    }
    if (verdict.action == Action::allow) return verdict;
    const bool stated = verdict.rule != nullptr && verdict.rule->error;
    verdict.error = stated ? *verdict.rule->error : default_error(operation);
    return verdict;
}

/// State of one evaluation: the strictest rule found so far for each operation.
class RuleSet::Contents::Search {
public:
    Search(const Contents& all, const Request& request)
        : all_(all), index_(all.indexed()), request_(request) {}

    void operator()(const FileObject& file) { names(index_.all_files, index_.files, file.path); }
    void operator()(const UnixObject& socket) { names(index_.all_sockets, index_.sockets, socket.name); }
    void operator()(const Endpoint& endpoint) {
        index_.endpoints.search(endpoint, [this](std::uint32_t number) {
            offer(number, [&](Operation operation) {
                return rule_matches(all_.rules[number], request_, operation, all_.fallback);
            });
        });
    }

    void operator()(const HostName& /*host*/) {
        for (const std::uint32_t number : index_.look_ups) {
            offer(number, [&](Operation operation) {
                return rule_matches(all_.rules[number], request_, operation, all_.fallback);
            });
        }
    }

    /// The strictest verdict over the operations. For equal ones it is that of the first operation, and
    /// reading comes last: a call that reads and creates is about the new file.
    [[nodiscard]] Verdict strictest() const {
        Rank strictest = 0;
        Operation about = Operation::read;
        for (const Operation operation : request_.operations) {
            const Rank found = best_[static_cast<std::size_t>(operation)];
            const Rank rank = found != 0 ? found : all_.fallback_rank(request_, operation);
            if (rank < strictest || (rank == strictest && about != Operation::read)) continue;
            strictest = rank;
            about = operation;
        }
        return all_.verdict(strictest, about);
    }

private:
    void names(const std::vector<std::uint32_t>& every, const HeadIndex& heads, std::string_view name) {
        for (const std::uint32_t number : every) offer_named(number);
        heads.search(
            name, [this](std::uint32_t number) { return worth(number); },
            [this](std::uint32_t number) { offer_named(number); });
    }

    /// Whether the rule would win for some operation, if it matches.
    [[nodiscard]] bool worth(std::uint32_t number) const {
        const Index::Digest& digest = index_.digests[number];
        const Rank rank = rank_of(digest.action, number);
        bool wins = false;
        for (const Operation operation : digest.operations& request_.operations)
            wins = wins || rank > best_[static_cast<std::size_t>(operation)];
        return wins;
    }

    /// Considers a rule whose `path` or `unix` is absent or known to match.
    void offer_named(std::uint32_t number) {
        const Rule& rule = all_.rules[number];
        if (!may_decide(rule, request_.object, all_.fallback) || !covers_protocol(rule, request_.object))
            return;
        offer(number, [&](Operation operation) {
            return index_.digests[number].only_name ||
                   (other_conditions_hold(rule.when, request_, operation) &&
                    !excepted(rule, request_, operation));
        });
    }

    /// Lets the rule win for each operation for which it is stricter and `matches(operation)`.
    template <typename Matches>
    void offer(std::uint32_t number, Matches matches) {
        const Index::Digest& digest = index_.digests[number];
        const Rank rank = rank_of(digest.action, number);
        for (const Operation operation : digest.operations& request_.operations) {
            Rank& best = best_[static_cast<std::size_t>(operation)];
            if (rank > best && matches(operation)) best = rank;
        }
    }

    const Contents& all_;
    const Index& index_;
    const Request& request_;
    std::array<Rank, operation_count> best_{};
};

RuleSet::RuleSet(std::vector<Rule> rules, Action fallback)
    : contents_(std::make_unique<const Contents>(std::move(rules), fallback)) {}
RuleSet::RuleSet(RuleSet&&) noexcept = default;
RuleSet::~RuleSet() = default;

void RuleSet::prepare() const {
    static_cast<void>(contents_->indexed());
    if (outer_ != nullptr) outer_->prepare();
}

namespace {

bool is_filtered(const Verdict& verdict) { return verdict.rule != nullptr && verdict.rule->filtered; }

bool is_by_run_server(const Verdict& verdict) {
    return verdict.rule != nullptr && verdict.rule->when.run_server && check_enabled("inner-run-servers");
}

/// The stricter verdict of a nested run and the run around it. A plain denial is stricter than one that hands
/// a filtered copy over, and one by a rule is stricter than the default's. Of two allowances that of the
/// run's own servers is stricter: callgate then connects to no other. Otherwise the outer one names the
/// verdict: no option of the nested run changes that.
Verdict narrowed(Verdict own, const Verdict& outer) {
    own.nested = true;
    if (own.action != outer.action) return own.action > outer.action ? own : outer;
    if (own.action == Action::allow) return is_by_run_server(own) ? own : outer;
    const bool by_rule = own.rule != nullptr && !own.rule->quiet && outer.rule == nullptr &&
                         own.action == Action::deny && check_enabled("inner-rule");
    return !is_filtered(own) && (is_filtered(outer) || by_rule) ? own : outer;
}

}  // namespace

Verdict RuleSet::evaluate(const Request& request) const {
    if (request.operations.empty() || !operations_of(request.object).contains_all(request.operations)) {
        // The request names no operation, or one that this kind of object lacks. A decoder's mistake must not
        // allow anything.
        Verdict refused;
        refused.error = EACCES;
        return refused;
    }
    Contents::Search search(*contents_, request);
    std::visit(search, request.object);
    if (outer_ == nullptr || !check_enabled("outer-rules")) return search.strictest();
    return narrowed(search.strictest(), outer_->evaluate(request));
}

std::vector<const Rule*> RuleSet::matching(const Request& request, Operation operation) const {
    std::vector<const Rule*> all;
    for (const Rule& rule : contents_->rules) {
        if (rule_matches(rule, request, operation, contents_->fallback)) all.push_back(&rule);
    }
    return all;
}

std::span<const Rule> RuleSet::rules() const { return contents_->rules; }
std::span<const Rule> RuleSet::quiet_rules() const { return contents_->quiet; }
Action RuleSet::fallback() const { return contents_->fallback; }

bool RuleSet::may_ask() const {
    return fallback() == Action::ask ||
           std::ranges::any_of(rules(), [](const Rule& rule) { return rule.action == Action::ask; }) ||
           some_level(&RuleSet::may_ask);
}
bool RuleSet::needs_program() const {
    return contents_->needs_program || some_level(&RuleSet::needs_program);
}
bool RuleSet::quiet_needs_program() const {
    return contents_->quiet_needs_program || some_level(&RuleSet::quiet_needs_program);
}
bool RuleSet::needs_arguments() const {
    return contents_->needs_arguments || some_level(&RuleSet::needs_arguments);
}
bool RuleSet::needs_party() const { return contents_->needs_party || some_level(&RuleSet::needs_party); }
bool RuleSet::needs_own_address() const {
    return contents_->needs_own_address || some_level(&RuleSet::needs_own_address);
}
bool RuleSet::needs_run_servers() const {
    return contents_->needs_run_servers || some_level(&RuleSet::needs_run_servers);
}
bool RuleSet::decides_look_ups() const {
    return contents_->look_ups || some_level(&RuleSet::decides_look_ups);
}
bool RuleSet::opens_udp() const { return contents_->opens_udp && (outer_ == nullptr || outer_->opens_udp()); }
bool RuleSet::opens_unix_datagram() const {
    return contents_->opens_unix_datagram && (outer_ == nullptr || outer_->opens_unix_datagram());
}
bool RuleSet::leaves_datagrams_to_kernel() const {
    return contents_->opens_unix_datagram && !contents_->decides_datagrams;
}
bool RuleSet::some_level(bool (RuleSet::*what)() const) const {
    return outer_ != nullptr && (outer_->*what)();
}

}  // namespace callgate::rules
