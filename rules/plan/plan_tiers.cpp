// The tier of each rule in plain words, for `callgate plan`, and the rules that this version cannot enforce.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "rules/plan/plan_parts.hpp"

namespace callgate::rules::planning {

namespace {

/// Facts about all rules, gathered once: a rule set may have a thousand.
struct Gathered {
    const Plan& plan;
    bool by_default = false;
    std::unordered_set<std::string_view> carrying;                   // ids that grants rest on
    std::unordered_map<const Rule*, std::vector<const Loss*>> lost;  // by the allowing rule
    std::unordered_map<std::string_view, const Loss*> inside;        // by the restricting rule
};

std::string metadata_note(const Rule& rule, const Plan& plan) {
    const bool decided =
        rule.operations.contains(Operation::metadata) && plan.notified.contains(Operation::metadata);
    return decided ? "; no part of the kernel holds metadata, its calls are decided one by one" : "";
}

RuleTier allowed_paths(const Rule& rule, const Gathered& gathered) {
    const Plan& plan = gathered.plan;
    if (gathered.by_default) return {&rule, Tier::landlock, "the default allows the same"};
    if (!rule.operations.intersects(held_by_path)) {
        if (plan.notified.contains(Operation::metadata))
            return {&rule, Tier::contested, "no part of the kernel holds metadata"};
        return {&rule, Tier::filter, "nothing limits metadata, so its calls are not notified"};
    }
    std::vector<std::string> lost;
    if (const auto losses = gathered.lost.find(&rule); losses != gathered.lost.end())
        for (const Loss* loss : losses->second)
            if (std::find(lost.begin(), lost.end(), loss->why) == lost.end()) lost.push_back(loss->why);
    const bool carries = gathered.carrying.contains(rule.id);
    const std::string note = metadata_note(rule, plan);
    if (lost.empty()) {
        if (carries)
            return {&rule, Tier::landlock, "every object is in a hierarchy that Landlock holds" + note};
        return {&rule, Tier::landlock,
                "nothing of it is left to grant: absent, denied, or granted by other rules" + note};
    }
    const std::string rest = carries ? "Landlock holds part of it; the rest is decided call by call: " : "";
    return {&rule, Tier::contested, rest + listed(lost) + note};
}

RuleTier restricted_paths(const Rule& rule, const Gathered& gathered) {
    const Plan& plan = gathered.plan;
    if (!plan.notified.intersects(rule.operations))
        return {&rule, Tier::landlock, "nothing of it is granted, so the kernel denies it alone"};
    if (const auto inside = gathered.inside.find(rule.id); inside != gathered.inside.end())
        return {&rule, Tier::contested,
                "it may decide inside what is allowed: beneath " + inside->second->path};
    if (rule.action == Action::ask) return {&rule, Tier::contested, "a person decides call by call"};
    if (plan.record == RecordMode::minimal)
        return {&rule, Tier::contested,
                "nothing of it is granted, but its calls are notified for other reasons"};
    return {&rule, Tier::contested,
            "nothing of it is granted; its calls are notified so that the denial is on record"};
}

bool unix_only(const Rule& rule) {
    const Protocols& stated = rule.when.protocol;
    return !rule.when.unix_socket.empty() || (stated.stated() && !stated.tcp && !stated.udp);
}

RuleTier network(const Rule& rule, const Plan& plan) {
    const Conditions& when = rule.when;
    if (only_datagrams(rule) && !(when.protocol.udp && plan.udp) &&
        !(when.protocol.datagram && plan.unix_datagram))
        return {&rule, Tier::filter, "no datagram socket can be made"};
    if (plan.unix_closed && unix_only(rule)) return {&rule, Tier::filter, "no unix socket can be made"};
    if (!plan.notified.intersects(rule.operations & network_operations))
        return {&rule, Tier::landlock,
                "Landlock holds ports and unix sockets, and nothing else contests the call"};
    if (names_asker(when)) return {&rule, Tier::contested, "it needs the asking program"};
    if (!when.host.empty() || !when.address.empty())
        return {&rule, Tier::contested, "Landlock knows ports, not hosts or addresses"};
    if (unix_only(rule) && !plan.sockets_held)
        return {&rule, Tier::contested, "the kernel does not hold unix sockets by name here"};
    const Operation operation =
        rule.operations.contains(Operation::connect) ? Operation::connect : Operation::bind;
    const Contest* contest = plan.contest(operation);
    return {&rule, Tier::contested,
            "the call is notified" + (contest == nullptr ? std::string() : ": " + contest->why)};
}

RuleTier tier_of(const Rule& rule, const Gathered& gathered) {
    if (!rule.operations.intersects(file_operations)) return network(rule, gathered.plan);
    RuleTier files = restricts(rule) ? restricted_paths(rule, gathered) : allowed_paths(rule, gathered);
    if (!rule.operations.intersects(network_operations)) return files;
    const RuleTier sockets = network(rule, gathered.plan);
    if (sockets.tier == Tier::contested) files.tier = Tier::contested;
    files.why = "files: " + files.why + "; sockets: " + sockets.why;
    return files;
}

}  // namespace

std::vector<RuleTier> tiers_of(const RuleSet& rules, const Plan& plan, const std::vector<Loss>& losses) {
    Gathered gathered{plan, rules.fallback() == Action::allow, {}, {}, {}};
    for (const Grant& grant : plan.grants) gathered.carrying.insert(grant.rules.begin(), grant.rules.end());
    for (const Loss& loss : losses) {
        if (loss.allow != nullptr) gathered.lost[loss.allow].push_back(&loss);
        if (!loss.by.empty()) gathered.inside.emplace(loss.by, &loss);
    }
    std::vector<RuleTier> tiers;
    for (const Rule& rule : rules.rules()) tiers.push_back(tier_of(rule, gathered));
    for (const Rule& rule : rules.quiet_rules())
        tiers.push_back({&rule, Tier::contested, "it is quiet: it decides where no other rule does"});
    return tiers;
}

}  // namespace callgate::rules::planning
