// Rules that this version cannot enforce and therefore refuses.
#include <algorithm>

#include "rules/plan/plan.hpp"

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

}  // namespace callgate::rules
