#include "supervisor/cli/check_hosts.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <set>

#include "supervisor/names/hosts.hpp"
#include "supervisor/names/public_suffix.hpp"
#include "supervisor/names/upstream.hpp"

namespace callgate::cli {

namespace {

using rules::Action;

/// The answers to one name, of both families.
struct Known {
    bool answered = false, address = false;
};

/// Asks for all names at once.
std::map<std::string, Known> look_up(const std::set<std::string>& names) {
    constexpr std::chrono::seconds patience{4};
    std::map<std::string, Known> known;
    boost::asio::io_context loop;
    names::Upstream upstream(loop);
    for (const std::string& name : names) {
        for (const names::Type type : {names::type_a, names::type_aaaa}) {
            upstream.ask(name, type, [&known, name, type](names::Bytes message) {
                const auto found = names::parse_answer(message, name, type);
                if (!found || (found->code != names::Code::ok && found->code != names::Code::no_such_name))
                    return;
                known[name].answered = true;
                known[name].address = known[name].address || !found->addresses.empty();
            });
        }
    }
    loop.run_for(patience);
    return known;
}

std::string about(const rules::Rule& rule, const std::string& message) {
    return "rule " + rules::in_quotes(rule.id) + ": " + message;
}

}  // namespace

std::vector<rules::Diagnostic> host_warnings(const rules::RuleSet& rules, const std::string& file) {
    std::vector<rules::Diagnostic> found;
    const auto warn = [&found](const rules::Rule& rule, const std::string& message) {
        found.push_back({rules::Diagnostic::Severity::warning, rule.source, about(rule, message)});
    };
    names::Hosts own;
    own.refresh();
    std::map<std::string, const rules::Rule*> literal;
    std::set<std::string> names;
    for (const rules::Rule& rule : rules.rules()) {
        if (rule.source.file != file || rule.when.host.empty() ||
            !rule.operations.contains(rules::Operation::connect))
            continue;
        if (rule.action >= Action::deny) continue;
        for (const rules::HostPattern& host : rule.when.host) {
            const std::string_view zone = std::string_view(host.text).substr(host.suffix ? 2 : 0);
            if (host.suffix && names::public_suffix(zone))
                warn(rule, "anybody can have a name below " + std::string(zone) +
                               " (a public suffix), and then reads every name that is looked up there");
            if (host.suffix || own.find(host.text) != nullptr || names.size() >= max_looked_up) continue;
            if (names.insert(host.text).second) literal[host.text] = &rule;
        }
    }
    if (names.empty()) return found;
    const std::map<std::string, Known> known = look_up(names);
    if (known.empty()) {
        warn(*literal.begin()->second, "no name server answers now, so no host could be looked up");
        return found;
    }
    for (const auto& [name, rule] : literal) {
        const auto answer = known.find(name);
        if (answer == known.end())
            warn(*rule, name + " cannot be resolved now: no name server answered");
        else if (!answer->second.address)
            warn(*rule, name + " cannot be resolved now: it has no address");
    }
    return found;
}

}  // namespace callgate::cli
