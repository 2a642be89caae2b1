#include "supervisor/container/container_rules.hpp"

#include <algorithm>
#include <utility>

#include "base/test_switch.hpp"
#include "rules/load/loader.hpp"
#include "supervisor/host/file_tree.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/host/own_addresses.hpp"

namespace callgate::container {

namespace {

using rules::Operation;

/// A file tree in which nothing exists: the profile of a rule set is the same on every host.
class NoFiles final : public rules::FileTree {
public:
    [[nodiscard]] Kind kind(const std::string& /*path*/) const override { return Kind::absent; }
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& /*directory*/,
                                                            std::size_t /*limit*/) const override {
        return std::vector<Entry>{};
    }
};

bool has_limits(const rules::Limits& limits) {
    return limits.memory || limits.file_size || limits.disk || limits.processes || limits.open_files ||
           limits.cpu || limits.wall || limits.idle;
}

/// The sentence about what cannot be held; "" if all can.
std::string not_held(const rules::LoadedRules& loaded, bool asks) {
    const rules::RuleSet& rules = *loaded.rules;
    if (rules.may_ask() && !asks) return "they ask, and nobody answers: give the agent --ask socket";
    if (rules.needs_party()) return "they tell an agent from its tools, which needs callgate run";
    if (rules.decides_look_ups())
        return "they name hosts, and look-ups are decided in callgate run alone: name addresses";
    if (rules.needs_run_servers()) return "they are about servers of a run's own, which needs callgate run";
    if (loaded.sni) return "they check names of TLS servers, which needs callgate run";
    if (has_limits(loaded.limits)) return "they state limits: give them to the container's runtime";
    const rules::Environment& environment = loaded.environment;
    if (!environment.pass.empty() || !environment.agent.empty() || !environment.set.empty())
        return "they state variables: give them to the container's runtime";
    return "";
}

rules::Plan plan_of(const rules::RuleSet& rules) {
    rules::PlanInput input;
    input.landlock_abi = 0;
    input.reasons = false;
    rules::Plan plan = rules::make_plan(rules, input);
    // The container's PID and network namespaces hold these.
    plan.signals_held = true;
    // The watch of each execve alone holds these rules (calls/exec/watch.hpp). It needs CAP_SYS_PTRACE,
    // without which no container can be entered.
    if (plan.notified.contains(Operation::execute)) {
        plan.notify_only_execute = true;
        rules::Grant everywhere;
        everywhere.path = "/";
        everywhere.directory = everywhere.notify_only_execute = true;
        plan.grants.push_back(everywhere);
    }
    return plan;
}

}  // namespace

Expected<ContainerRules> load_container_rules(const std::string& json, const std::string& label,
                                              bool in_place, bool asks) {
    const RealFileTree files;
    const NoFiles none;
    std::string linked;
    rules::LoadContext context;
    context.tmp = "/tmp";
    context.read_file = [](const std::string&, std::size_t) -> Expected<std::string> {
        return Problem{"a container's rules are one file, which can extend shipped profiles alone"};
    };
    context.tree = in_place ? static_cast<const rules::FileTree*>(&files) : &none;
    context.canonical = [&](const std::string& path) {
        if (!in_place) return path;
        std::string real = canonical(path);
        if (real != path && linked.empty()) linked = path + " leads to " + real;
        return real;
    };
    context.own_addresses = own_addresses;
    rules::RuleSources sources;
    sources.parts.emplace_back(rules::RuleSources::Text{json, label});
    rules::LoadedRules loaded = rules::load(sources, context);
    if (const auto good = loaded.first_error(); !good) return good.error();
    if (!linked.empty() && check_enabled("container-links"))
        return Problem{label + ": " + linked + " in this container: name the place where it ends"};
    ContainerRules made{loaded.rules, plan_of(*loaded.rules), loaded.sha256};
    if (const std::string why = not_held(loaded, asks); !why.empty() && check_enabled("container-held"))
        return Problem{label + ": the agent cannot hold these rules: " + why};
    return made;
}

}  // namespace callgate::container
