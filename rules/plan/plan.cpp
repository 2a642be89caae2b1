#include "rules/plan/plan.hpp"

#include <algorithm>
#include <cerrno>

#include "rules/plan/plan_parts.hpp"

namespace callgate::rules {

namespace planning {

namespace {

constexpr OperationSet exchanged{Operation::metadata, Operation::modify};

bool covers_everything(const Conditions& when) {
    if (names_asker(when)) return false;
    return when.path.empty() || std::any_of(when.path.begin(), when.path.end(),
                                            [](const Glob& glob) { return glob.covers_hierarchy("/"); });
}

/// Reasons why the kernel must not decide an operation on files alone, in each record mode.
class FileReasons {
public:
    FileReasons(const RuleSet& rules, const PathPlan& paths, int abi, bool kept)
        : rules_(rules), paths_(paths), abi_(abi), kept_(kept) {}

    /// `unix_mixed`: the rules allow some unix sockets and not others, by name.
    [[nodiscard]] Reasons contested(Operation operation, bool unix_mixed) const;
    [[nodiscard]] Reasons minimal(Operation operation, bool unix_mixed) const;

private:
    [[nodiscard]] bool whole(Operation operation) const;
    void decisions(Operation operation, Reasons& reasons) const;
    void older_abi(Operation operation, Reasons& reasons) const;
    void verdicts(Operation operation, Reasons& reasons) const;
    void losses(Operation operation, Reasons& reasons) const;
    void renames(bool unix_mixed, Reasons& reasons) const;

    const RuleSet& rules_;
    const PathPlan& paths_;
    int abi_;
    bool kept_;
};

/// Whether the rules allow everything and Landlock refuses nothing.
bool FileReasons::whole(Operation operation) const {
    const bool held =
        abi_ < 1 || !held_by_path.contains(operation) || paths_.held_at("/").contains(operation);
    return held && wholly_allowed(rules_, operation);
}

Reasons FileReasons::contested(Operation operation, bool unix_mixed) const {
    Reasons reasons(kept_);
    older_abi(operation, reasons);
    decisions(operation, reasons);
    if (operation != Operation::create) return reasons;
    Reasons others(kept_);
    for (const Operation other :
         {Operation::read, Operation::modify, Operation::metadata, Operation::execute})
        decisions(other, others);
    reasons.add_all(others, "a rename could free what is decided call by call");
    if (unix_mixed) reasons.add("default", "a rename could free unix sockets");
    return reasons;
}

void FileReasons::decisions(Operation operation, Reasons& reasons) const {
    if (whole(operation)) return;
    bool all = rules_.fallback() == Action::allow;
    for (const Rule& rule : rules_.rules()) {
        if (!rule.operations.contains(operation) || !decides_files(rule)) continue;
        if (restricts(rule)) {
            reasons.add(rule.id, [&] {
                return "rule " + rule.id + " may " + std::string(name(rule.action)) + ' ' +
                       std::string(name(operation));
            });
        } else if (covers_everything(rule.when) && !rule.except) {
            all = true;
        }
    }
    const bool asks = rules_.fallback() == Action::ask && operation != Operation::execute;
    if (!all)
        reasons.add("default", asks ? "the default asks what no rule allows, and that goes on record"
                                    : "the default denies what no rule allows, and that goes on record");
    if (reasons.empty()) reasons.add("landlock", "Landlock does not hold all that is allowed");
}

void FileReasons::older_abi(Operation operation, Reasons& reasons) const {
    if (abi_ < 1) return;  // there is no Landlock domain at all
    if (operation == Operation::create && abi_ < 2)
        reasons.add("landlock", "before ABI 2 Landlock refuses every rename and link across directories");
    if (operation == Operation::modify && abi_ < 3 && !wholly_allowed(rules_, operation))
        reasons.add("landlock", "before ABI 3 Landlock does not hold truncation");
}

Reasons FileReasons::minimal(Operation operation, bool unix_mixed) const {
    if (operation == Operation::metadata)
        return contested(operation, false);  // the kernel enforces none of it
    Reasons reasons(kept_);
    older_abi(operation, reasons);
    if (!whole(operation)) {
        verdicts(operation, reasons);
        losses(operation, reasons);
    }
    if (operation == Operation::create) renames(unix_mixed, reasons);
    return reasons;
}

void FileReasons::verdicts(Operation operation, Reasons& reasons) const {
    for (const Rule& rule : rules_.rules()) {
        if (!rule.operations.contains(operation) || !decides_files(rule)) continue;
        if (rule.action == Action::ask) reasons.add(rule.id, [&] { return "rule " + rule.id + " asks"; });
        if (rule.action == Action::kill) reasons.add(rule.id, [&] { return "rule " + rule.id + " kills"; });
        // Landlock itself answers EACCES, so that errno needs no notification.
        if (rule.action == Action::deny && rule.error && *rule.error != EACCES)
            reasons.add(rule.id, [&] { return "rule " + rule.id + " states an errno"; });
    }
    if (rules_.fallback() == Action::ask && operation != Operation::execute)
        reasons.add("default", "the default asks");
}

void FileReasons::losses(Operation operation, Reasons& reasons) const {
    for (const Loss& loss : paths_.losses) {
        if (!loss.operations.contains(operation)) continue;
        const std::string_view allow = loss.allow == nullptr ? "default" : std::string_view(loss.allow->id);
        reasons.add(loss.by.empty() ? allow : loss.by,
                    [&] { return "what " + std::string(allow) + " allows is not all held: " + loss.why; });
    }
    for (const Grant& grant : paths_.grants)
        for (const std::string& id : grant.rules) {
            if (operation == Operation::read && grant.notify_only_read)
                reasons.add(id, [&] { return "execution beneath " + grant.path + " opens it to reading"; });
            if (operation == Operation::execute && grant.notify_only_execute)
                reasons.add(id, [&] { return "execution is notify-only at " + grant.path; });
        }
}

/// Landlock compares its own rights if an object moves (REFER). A rename could free every other right that a
/// name decides, so each rename must then be decided by callgate.
void FileReasons::renames(bool unix_mixed, Reasons& reasons) const {
    for (const Operation other : {Operation::read, Operation::modify, Operation::execute})
        reasons.add_all(minimal(other, false), "a rename could free what is decided call by call");
    for (const Rule& rule : rules_.rules())
        if (rule.operations.intersects(exchanged) && !rule.operations.contains_all(exchanged))
            reasons.add(rule.id, "a rename could free metadata, which Landlock does not compare");
    if (unix_mixed)
        reasons.add("default", "a rename could free unix sockets, which Landlock does not compare");
    for (const Grant& grant : paths_.grants)
        if (!grant.directory &&
            paths_.held_at(grant.path.substr(0, std::max<std::size_t>(1, grant.path.rfind('/'))))
                .contains(Operation::create))
            reasons.add(grant.rules.front(),
                        [&] { return "a rename could put something else at " + grant.path; });
}

void add_contest(Plan& plan, Operation operation, const Reasons& reasons) {
    Reasons all(reasons.kept());
    if (plan.record == RecordMode::all) all.add("record", "every call is recorded");
    all = all.joined(reasons);
    if (all.empty()) return;
    plan.notified |= operation;
    plan.contests.push_back({operation, all.because(), listed(all.why())});
}

void hold_what_abi_holds(Plan& plan) {
    plan.truncation_held = plan.landlock_abi >= 3;
    plan.signals_held = plan.landlock_abi >= 6;
}

/// Adds connect to the grant of a directory, with the rules behind it.
void grant_connect(std::vector<Grant>& grants, const std::string& directory, const RuleSet& rules) {
    auto at = std::lower_bound(
        grants.begin(), grants.end(), directory,
        [](const Grant& one, const std::string& wanted) { return PathOrder()(one.path, wanted); });
    if (at == grants.end() || at->path != directory)
        at = grants.insert(at, Grant{.path = directory, .directory = true, .operations = {}, .rules = {}});
    at->operations |= Operation::connect;
    for (const Rule& rule : rules.rules()) {
        const bool carries = !restricts(rule) && rule.operations.contains(Operation::connect) &&
                             std::ranges::any_of(rule.when.unix_socket, [&](const Glob& glob) {
                                 return glob.covers_hierarchy(directory);
                             });
        if (carries && std::ranges::find(at->rules, rule.id) == at->rules.end()) at->rules.push_back(rule.id);
    }
}

/// Datagrams are held where Landlock allows each receiver that the rules allow, and no other.
void hold_datagrams(Plan& plan, const NetworkPlan& connect, const NetworkPlan& bind) {
    if (plan.record != RecordMode::minimal || plan.landlock_abi < 10 || plan.look_ups) {
        plan.sends_held = plan.sockets_held && plan.unix_datagram && !plan.udp;
        return;
    }
    if (plan.udp) {
        plan.udp_connect = connect.udp;
        plan.udp_bind = bind.udp;
    }
    plan.sends_held = (plan.udp || plan.unix_datagram) && (!plan.udp || connect.udp.exact) &&
                      (!plan.unix_datagram || plan.sockets_held);
}

void plan_contests(Plan& plan, const RuleSet& rules, const PathPlan& paths, const NetworkPlan& connect,
                   const NetworkPlan& bind) {
    const bool kept = connect.contested.kept();
    const FileReasons files(rules, paths, plan.landlock_abi, kept);
    const bool minimal = plan.record == RecordMode::minimal;
    plan.unix_closed = minimal && connect.unix_shut && bind.unix_shut;
    // Landlock compares its own right where a name moves, and a name that is bound later was decided.
    const bool unix_mixed =
        !(connect.unix_shut && bind.unix_shut) &&
        (plan.sockets_held || !(connect.minimal_unix.empty() && bind.minimal_unix.empty()));
    for (const Operation operation : file_operations | network_operations) {
        if (file_operations.contains(operation)) {
            add_contest(
                plan, operation,
                minimal ? files.minimal(operation, unix_mixed) : files.contested(operation, unix_mixed));
            continue;
        }
        const NetworkPlan& network = operation == Operation::connect ? connect : bind;
        const Reasons& unix_reasons = plan.unix_closed ? Reasons(kept) : network.minimal_unix;
        add_contest(plan, operation, minimal ? network.minimal.joined(unix_reasons) : network.contested);
    }
}

}  // namespace

bool names_asker(const Conditions& conditions) {
    return !conditions.program.empty() || conditions.argv || conditions.party;
}

bool names_endpoints(const Conditions& conditions) {
    return !conditions.host.empty() || !conditions.address.empty() || !conditions.port.empty();
}

bool decides_files(const Rule& rule) {
    const Conditions& when = rule.when;
    if (!rule.operations.intersects(file_operations) || names_endpoints(when)) return false;
    return !when.path.empty() || (when.unix_socket.empty() && !when.protocol.stated());
}

bool decides_sockets(const Rule& rule) {
    const Conditions& when = rule.when;
    if (!rule.operations.intersects(network_operations) || names_endpoints(when)) return false;
    return !when.unix_socket.empty() || when.path.empty();
}

bool wholly_allowed(const RuleSet& rules, Operation operation) {
    bool allowed = rules.fallback() == Action::allow;
    for (const Rule& rule : rules.rules()) {
        if (!rule.operations.contains(operation) || !decides_files(rule)) continue;
        if (restricts(rule)) return false;
        allowed = allowed || (covers_everything(rule.when) && !rule.except);
    }
    return allowed;
}

void Reasons::put(std::string_view id, std::string_view sentence) {
    if (seen_.insert("id " + std::string(id)).second) because_.emplace_back(id);
    if (seen_.emplace(sentence).second) why_.emplace_back(sentence);
}

void Reasons::add_all(const Reasons& others, std::string_view sentence) {
    any_ = any_ || others.any_;
    for (const std::string& id : others.because_) add(id, sentence);
}

Reasons Reasons::joined(const Reasons& other) const {
    Reasons both = *this;
    both.any_ = any_ || other.any_;
    both.because_.insert(both.because_.end(), other.because_.begin(), other.because_.end());
    both.why_.insert(both.why_.end(), other.why_.begin(), other.why_.end());
    return both;
}

std::string listed(const std::vector<std::string>& words) {
    constexpr std::size_t shown = 3;
    std::string text;
    for (std::size_t index = 0; index < words.size() && index < shown; ++index) {
        if (index > 0) text += index + 1 == words.size() ? " and " : ", ";
        text += words[index];
    }
    if (words.size() > shown) text += " and " + std::to_string(words.size() - shown) + " more";
    return text;
}

}  // namespace planning

const Contest* Plan::contest(Operation operation) const {
    const auto found = std::find_if(contests.begin(), contests.end(), [operation](const Contest& contest) {
        return contest.operation == operation;
    });
    return found == contests.end() ? nullptr : &*found;
}

Plan make_plan(const RuleSet& rules, const PlanInput& input) {
    using namespace planning;
    Plan plan;
    plan.landlock_abi = input.landlock_abi;
    plan.record = input.record;
    plan.udp = rules.opens_udp();
    plan.unix_datagram = rules.opens_unix_datagram();
    plan.look_ups = rules.decides_look_ups();
    plan.parties = rules.needs_party();
    hold_what_abi_holds(plan);
    const bool losses = input.reasons || input.record == RecordMode::minimal;  // only then read
    PathPlan paths = plan_paths(rules, losses, input);
    plan.processes_read = paths.processes_read;
    const auto sockets = plan_sockets(rules, input);
    plan.sockets_held = sockets && input.record == RecordMode::minimal;
    const NetworkPlan connect =
        plan_network(rules, Operation::connect, input.landlock_abi, plan.sockets_held, input.reasons);
    const NetworkPlan bind = plan_network(rules, Operation::bind, input.landlock_abi, false, input.reasons);
    plan.tcp_connect = connect.tcp;
    plan.tcp_bind = bind.tcp;
    hold_datagrams(plan, connect, bind);
    plan.notify_only = std::any_of(paths.grants.begin(), paths.grants.end(),
                                   [](const Grant& grant) { return grant.notify_only_read; });
    plan.notify_only_execute = std::any_of(paths.grants.begin(), paths.grants.end(),
                                           [](const Grant& grant) { return grant.notify_only_execute; });
    plan_contests(plan, rules, paths, connect, bind);
    if (plan.look_ups && !plan.notified.contains(Operation::connect)) {
        Reasons names(input.reasons);
        names.add("default", "names are looked up over connects");
        add_contest(plan, Operation::connect, names);
    }
    plan.run_servers =
        rules.needs_run_servers() && plan.notified.intersects({Operation::connect, Operation::bind});
    if (plan.run_servers && !plan.notified.contains(Operation::bind)) {
        Reasons servers(input.reasons);
        servers.add("default", "a connect is decided by what the run has bound");
        add_contest(plan, Operation::bind, servers);
    }
    plan.sockets_on_behalf =
        input.sockets_on_behalf && plan.notified.intersects({Operation::connect, Operation::bind});
    for (const Operation operation : {Operation::connect, Operation::bind}) {
        if (!plan.sockets_on_behalf || plan.notified.contains(operation)) continue;
        Reasons copies(input.reasons);
        copies.add("default", "sockets are made on behalf, as pidfd_getfd is refused");
        add_contest(plan, operation, copies);
    }
    if (rules.leaves_datagrams_to_kernel() && !plan.sockets_held) {
        plan.messages_held =
            plan.notified.contains_all({Operation::connect, Operation::bind}) && holds_messages(rules, input);
        plan.unix_datagram = plan.messages_held;
    }
    if (plan.sockets_held)
        for (const std::string& directory : *sockets) grant_connect(paths.grants, directory, rules);
    plan.grants = std::move(paths.grants);
    if (input.reasons) plan.tiers = tiers_of(rules, plan, paths.losses);
    return plan;
}

}  // namespace callgate::rules
