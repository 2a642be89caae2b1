#include "rules/match/rule_match.hpp"
#include "base/test_switch.hpp"

#include <algorithm>

namespace callgate::rules {

namespace {

bool any_matches(const std::vector<Glob>& globs, std::string_view text) {
    return std::any_of(globs.begin(), globs.end(), [text](const Glob& glob) { return glob.matches(text); });
}

bool names_endpoints(const Conditions& conditions) {
    return !conditions.host.empty() || !conditions.address.empty() || !conditions.port.empty();
}

/// Whether the stated protocols of the rule or exception include the object's. Files have none.
bool states_protocol(const Protocols& stated, const Object& object) {
    if (std::holds_alternative<HostName>(object)) return stated.tcp || stated.udp;
    if (const auto* endpoint = std::get_if<Endpoint>(&object)) {
        return endpoint->protocol == Protocol::tcp ? stated.tcp : stated.udp;
    }
    if (const auto* socket = std::get_if<UnixObject>(&object)) {
        return socket->type == UnixType::datagram ? stated.datagram : stated.stream;
    }
    return false;
}

bool names_host(const Conditions& conditions, std::string_view name) {
    return std::any_of(conditions.host.begin(), conditions.host.end(),
                       [name](const HostPattern& host) { return host.matches(name); });
}

bool endpoint_holds(const Conditions& conditions, const Endpoint& endpoint) {
    if (!conditions.path.empty() || !conditions.unix_socket.empty()) return false;
    const auto holds = [](const auto& list, auto test) {
        return list.empty() || std::any_of(list.begin(), list.end(), test);
    };
    return holds(conditions.port, [&](const PortRange& range) { return range.contains(endpoint.port); }) &&
           ((conditions.own_address && endpoint.own) ||
            holds(conditions.address, [&](const Cidr& block) { return block.contains(endpoint.address); })) &&
           (conditions.host.empty() ||
            std::any_of(endpoint.names.begin(), endpoint.names.end(),
                        [&](const std::string& name) { return names_host(conditions, name); }));
}

/// Whether connects to `name` satisfy the conditions: some of them, or with `every` all of them. The port is
/// not known yet. A condition on addresses alone names no host, so it brings no look-up.
bool look_up_holds(const Conditions& conditions, std::string_view name, bool every) {
    if (!conditions.path.empty() || !conditions.unix_socket.empty()) return false;
    if (!conditions.host.empty()) {
        if (!names_host(conditions, name)) return false;
    } else if (!conditions.address.empty()) {
        return false;
    }
    return !every || (conditions.address.empty() && conditions.port.empty());
}

/// `own` are the globs for names of this kind of object, `foreign` those of the other kind.
bool name_holds(const std::vector<Glob>& own, const std::vector<Glob>& foreign, std::string_view name) {
    return own.empty() ? foreign.empty() : any_matches(own, name);
}

bool object_holds(const Conditions& conditions, const Object& object, bool every) {
    if (const auto* host = std::get_if<HostName>(&object))
        return look_up_holds(conditions, host->name, every);
    if (const auto* endpoint = std::get_if<Endpoint>(&object)) return endpoint_holds(conditions, *endpoint);
    if (names_endpoints(conditions)) return false;
    if (const auto* file = std::get_if<FileObject>(&object)) {
        if (conditions.path.empty() && conditions.protocol.stated()) return false;
        return name_holds(conditions.path, conditions.unix_socket, file->path);
    }
    return name_holds(conditions.unix_socket, conditions.path, std::get<UnixObject>(object).name);
}

}  // namespace

bool arguments_match(std::span<const Glob> patterns, std::span<const std::string> arguments) {
    std::size_t pattern = 0;
    std::size_t argument = 0;
    // On a mismatch after the last "**", matching resumes here, one argument later.
    std::optional<std::size_t> after_star;
    std::size_t retry = 0;
    while (argument < arguments.size()) {
        if (pattern < patterns.size() && patterns[pattern].text() == "**") {
            after_star = ++pattern;
            retry = argument;
        } else if (pattern < patterns.size() && patterns[pattern].matches(arguments[argument])) {
            ++pattern;
            ++argument;
        } else if (after_star) {
            pattern = *after_star;
            argument = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < patterns.size() && patterns[pattern].text() == "**") ++pattern;
    return pattern == patterns.size();
}

/// A bind to port 0 makes one: the kernel chooses a port that nobody has.
bool is_run_server(const Object& object, Operation operation) {
    const auto* const endpoint = std::get_if<Endpoint>(&object);
    if (endpoint == nullptr || endpoint->protocol != Protocol::tcp) return false;
    return endpoint->of_run || (operation == Operation::bind && endpoint->port == 0);
}

bool other_conditions_hold(const Conditions& conditions, const Request& request, Operation operation) {
    if (!conditions.program.empty() && !any_matches(conditions.program, request.program)) return false;
    if (conditions.party && *conditions.party != request.party && check_enabled("party")) return false;
    if (conditions.run_server && !is_run_server(request.object, operation)) return false;
    if (!conditions.argv) return true;
    return operation == Operation::execute && arguments_match(*conditions.argv, request.arguments);
}

bool conditions_hold(const Conditions& conditions, const Request& request, Operation operation, bool every) {
    const bool file = std::holds_alternative<FileObject>(request.object);
    if (!file && conditions.protocol.stated() && !states_protocol(conditions.protocol, request.object))
        return false;
    if (every && std::holds_alternative<HostName>(request.object) && conditions.protocol.stated() &&
        !(conditions.protocol.tcp && conditions.protocol.udp))
        return false;
    return object_holds(conditions, request.object, every) &&
           other_conditions_hold(conditions, request, operation);
}

bool matches_when(const Rule& rule, const Request& request, Operation operation) {
    return conditions_hold(rule.when, request, operation, rule.action >= Action::deny);
}

bool excepted(const Rule& rule, const Request& request, Operation operation) {
    return rule.except && conditions_hold(*rule.except, request, operation, rule.action < Action::deny);
}

bool covers_protocol(const Rule& rule, const Object& object) {
    if (std::holds_alternative<FileObject>(object)) return true;
    if (rule.when.protocol.stated()) return states_protocol(rule.when.protocol, object);
    if (rule.action == Action::deny || rule.action == Action::kill) return true;
    return states_protocol({.tcp = true, .udp = false, .stream = true, .datagram = false}, object);
}

bool may_decide(const Rule& rule, const Object& object, Action fallback) {
    const auto* file = std::get_if<FileObject>(&object);
    if (file == nullptr || !file->unlinked || !check_enabled("nameless")) return true;
    if (rule.action == Action::allow) return false;
    // A person's answer must not allow an object that the rule set denies.
    return rule.action != Action::ask || fallback == Action::allow;
}

bool rule_matches(const Rule& rule, const Request& request, Operation operation, Action fallback) {
    return rule.operations.contains(operation) && may_decide(rule, request.object, fallback) &&
           covers_protocol(rule, request.object) && matches_when(rule, request, operation) &&
           !excepted(rule, request, operation);
}

}  // namespace callgate::rules
