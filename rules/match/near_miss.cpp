#include "rules/match/near_miss.hpp"

#include <optional>

#include "rules/match/rule_match.hpp"

namespace callgate::rules {

namespace {

std::optional<Obstacle> obstacle(const Rule& rule, const Request& request, Operation operation,
                                 Action fallback) {
    if (!rule.operations.contains(operation) || !may_decide(rule, request.object, fallback))
        return std::nullopt;
    const bool covered = covers_protocol(rule, request.object);
    if (matches_when(rule, request, operation)) {
        if (!covered) return Obstacle::protocol;
        if (excepted(rule, request, operation)) return Obstacle::exception;
        return std::nullopt;  // it matches
    }
    const auto holds_without = [&](auto leave_out) {
        Rule other = rule;
        leave_out(other.when);
        return rule_matches(other, request, operation, fallback);
    };
    if (!rule.when.program.empty() && holds_without([](Conditions& when) { when.program.clear(); }))
        return Obstacle::program;
    if (rule.when.party && holds_without([](Conditions& when) { when.party.reset(); }))
        return Obstacle::party;
    if (rule.when.argv && holds_without([](Conditions& when) { when.argv.reset(); }))
        return Obstacle::arguments;
    if (rule.when.run_server && holds_without([](Conditions& when) { when.run_server = false; }))
        return Obstacle::server;
    if (rule.when.protocol.stated() && holds_without([](Conditions& when) {
            when.protocol = {.tcp = true, .udp = true, .stream = true, .datagram = true};
        }))
        return Obstacle::protocol;
    return std::nullopt;
}

}  // namespace

std::vector<NearMiss> near_misses(const RuleSet& rules, const Request& request, Operation operation) {
    std::vector<NearMiss> found;
    for (const Rule& rule : rules.rules())
        if (const auto one = obstacle(rule, request, operation, rules.fallback()))
            found.push_back({&rule, *one});
    return found;
}

}  // namespace callgate::rules
