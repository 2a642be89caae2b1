// What this version cannot enforce and therefore refuses.
#include <algorithm>

#include "rules/limits.hpp"
#include "rules/plan.hpp"

namespace callgate::rules {

std::vector<std::pair<const Rule*, std::string>> unenforceable(const RuleSet& rules) {
    std::vector<std::pair<const Rule*, std::string>> found;
    for (const Rule& rule : rules.rules()) {
        const auto& hosts = rule.when.host;
        if (std::any_of(hosts.begin(), hosts.end(), [](const HostPattern& host) { return host.suffix; }))
            found.emplace_back(&rule, "this version cannot know which addresses belong to a `*.suffix`");
    }
    return found;
}

std::vector<std::string> unenforceable(const Limits& limits) {
    std::vector<std::string> names;
    if (limits.memory) names.emplace_back("memory");
    if (limits.processes) names.emplace_back("processes");
    if (limits.cpu) names.emplace_back("cpu");
    if (limits.disk) names.emplace_back("disk");
    if (limits.idle) names.emplace_back("idle");
    return names;
}

}  // namespace callgate::rules
