#include <map>
#include <nlohmann/json.hpp>

#include "rules/model/address.hpp"
#include "supervisor/cli/registries.hpp"

namespace callgate::cli {

namespace {

using nlohmann::json;

/// Addresses that a name of the outside must not lead to. The user's own registry may lie there, and on this
/// machine.
constexpr std::string_view private_blocks[] = {"10.0.0.0/8",    "172.16.0.0/12", "192.168.0.0/16",
                                               "100.64.0.0/10", "fc00::/7",      "${own}"};

/// The rules that replace or extend the rule `shipped`, whose hosts are the tool's own.
void add_rules(json& rules, const json& shipped, const Registries& registries) {
    const std::string id = shipped.value("id", "registry");
    std::map<int, std::vector<std::string>> names, addresses;
    for (const RegistryHost& one : registries.hosts) {
        const bool name = rules::parse_host(one.host).has_value() && !rules::parse_cidr(one.host).has_value();
        (name ? names : addresses)[one.port].push_back(one.host);
    }
    const auto add = [&](std::string_view suffix, int port, json conditions) {
        conditions["id"] = id + std::string(suffix) + "-" + std::to_string(port);
        conditions["allow"] = "connect";
        conditions["port"] = port;
        conditions["reason"] = "named by your own settings";
        rules.push_back(std::move(conditions));
    };
    for (const auto& [port, hosts] : names) {
        add("-own", port, {{"host", hosts}});
        add("-private", port, {{"host", hosts}, {"address", private_blocks}});
    }
    for (const auto& [port, hosts] : addresses) add("-address", port, {{"address", hosts}});
}

}  // namespace

std::string with_registries(std::string_view profile_json, const Registries& registries) {
    json set = json::parse(profile_json);
    json kept = json::array();
    for (const json& rule : set["rules"]) {
        const bool registry = rule.contains("host");
        if (!registry || !registries.replace) kept.push_back(rule);
        if (registry) add_rules(kept, rule, registries);
    }
    set["rules"] = std::move(kept);
    for (const auto& [name, value] : registries.variables) set["environment"]["set"][name] = value;
    if (registries.replace) set.erase("examples");
    return set.dump(2);
}

}  // namespace callgate::cli
