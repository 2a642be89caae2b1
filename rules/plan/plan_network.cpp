// Landlock's part of connect and bind: TCP and UDP ports that are allowed to every host, and nothing else.
#include <algorithm>
#include <bitset>

#include "rules/plan/plan_parts.hpp"

namespace callgate::rules::planning {

bool concerns(const Rule& rule, Operation operation, SocketClass which) {
    if (!rule.operations.contains(operation)) return false;
    const bool internet = which == SocketClass::tcp || which == SocketClass::udp;
    if (internet ? !(rule.when.unix_socket.empty() && rule.when.path.empty()) : !decides_sockets(rule))
        return false;
    const Protocols& stated = rule.when.protocol;
    if (!stated.stated()) {
        const bool opens = rule.action == Action::allow || rule.action == Action::ask;
        return !opens || which == SocketClass::tcp || which == SocketClass::unix_stream;
    }
    switch (which) {
        case SocketClass::tcp:
            return stated.tcp;
        case SocketClass::udp:
            return stated.udp;
        case SocketClass::unix_stream:
            return stated.stream;
        case SocketClass::unix_datagram:
            return stated.datagram;
    }
    return true;
}

namespace {

constexpr std::size_t port_count = 65536;
// Landlock takes ports one by one, so a wide range that is not everything stays contested.
constexpr std::size_t max_held_ports = 1024;
using Ports = std::bitset<port_count>;

using Class = SocketClass;

/// Whether the rule matches every address on its ports, for every program.
bool every_host(const Rule& rule) {
    return rule.when.host.empty() && rule.when.address.empty() && rule.when.unix_socket.empty() &&
           !names_asker(rule.when) && !rule.when.run_server && !rule.except;
}
bool everything(const Rule& rule) { return every_host(rule) && rule.when.port.empty(); }

Ports ports_of(const Rule& rule) {
    Ports ports;
    if (rule.when.port.empty()) return ports.set();
    for (const PortRange& range : rule.when.port)
        for (std::size_t port = range.first; port <= range.last; ++port) ports.set(port);
    return ports;
}

std::vector<PortRange> ranges_of(const Ports& ports) {
    std::vector<PortRange> ranges;
    if (ports.none()) return ranges;
    for (std::size_t port = 0; port < port_count; ++port) {
        if (!ports.test(port)) continue;
        const auto number = static_cast<std::uint16_t>(port);
        if (!ranges.empty() && ranges.back().last + 1U == port) {
            ranges.back().last = number;
        } else {
            ranges.push_back({number, number});
        }
    }
    return ranges;
}

/// Keeps the narrowest ranges, up to the number of ports that Landlock is given.
void keep_few(std::vector<PortRange>& ranges, Ports& ports) {
    std::stable_sort(ranges.begin(), ranges.end(), [](const PortRange& left, const PortRange& right) {
        return left.last - left.first < right.last - right.first;
    });
    std::size_t total = 0;
    std::erase_if(ranges, [&](const PortRange& range) {
        const std::size_t width = static_cast<std::size_t>(range.last - range.first) + 1;
        if (total + width <= max_held_ports) {
            total += width;
            return false;
        }
        for (std::size_t port = range.first; port <= range.last; ++port) ports.reset(port);
        return true;
    });
    std::sort(ranges.begin(), ranges.end(),
              [](const PortRange& left, const PortRange& right) { return left.first < right.first; });
}

class Network {
public:
    Network(const RuleSet& rules, Operation operation) : rules_(rules), operation_(operation) {}

    [[nodiscard]] bool whole(Class which) const;
    [[nodiscard]] bool open(Class which) const;
    void contested(Class which, const std::string& what, Reasons& reasons) const;
    /// Ports, if the ABI is new enough. `minimal`: why Landlock does not hold all of it.
    void hold(Class which, int abi, HeldPorts& held, Reasons& minimal) const;

private:
    [[nodiscard]] bool allows_some_port(Class which) const;
    void hold_ports(Class which, HeldPorts& held) const;
    void beyond_ports(Class which, HeldPorts& held, Reasons& minimal) const;

    const RuleSet& rules_;
    Operation operation_;
};

bool Network::whole(Class which) const {
    bool allowed = rules_.fallback() == Action::allow;
    for (const Rule& rule : rules_.rules()) {
        if (!concerns(rule, operation_, which)) continue;
        if (restricts(rule)) return false;
        allowed = allowed || everything(rule);
    }
    return allowed;
}

/// Whether some object of the class could be allowed, now or by an answer.
bool Network::open(Class which) const {
    if (rules_.fallback() != Action::deny) return true;
    return std::any_of(rules_.rules().begin(), rules_.rules().end(), [&](const Rule& rule) {
        return (rule.action == Action::allow || rule.action == Action::ask) &&
               concerns(rule, operation_, which);
    });
}

void Network::contested(Class which, const std::string& what, Reasons& reasons) const {
    if (whole(which)) return;
    bool allowed = rules_.fallback() == Action::allow;
    for (const Rule& rule : rules_.rules()) {
        if (!concerns(rule, operation_, which)) continue;
        if (!restricts(rule)) {
            allowed = allowed || everything(rule);
            continue;
        }
        reasons.add(rule.id, [&] {
            return "rule " + rule.id + " may " + std::string(name(rule.action)) + ' ' + what;
        });
    }
    if (!allowed)
        reasons.add("default", [&] {
            return "the default says " + std::string(name(rules_.fallback())) + " to " + what +
                   " that no rule allows";
        });
}

void Network::hold(Class which, int abi, HeldPorts& held, Reasons& minimal) const {
    held.all = held.exact = whole(which);
    if (held.all) return;
    const int needed = which == Class::tcp ? 4 : 10;
    if (abi < needed) {
        minimal.add("landlock", [&] {
            return "Landlock holds " + std::string(which == Class::tcp ? "TCP" : "UDP") + " from ABI " +
                   std::to_string(needed) + ", this is " + std::to_string(abi);
        });
        return;
    }
    held.exact = true;
    if (allows_some_port(which)) hold_ports(which, held);
    beyond_ports(which, held, minimal);
}

bool Network::allows_some_port(Class which) const {
    return rules_.fallback() == Action::allow || std::ranges::any_of(rules_.rules(), [&](const Rule& rule) {
               return !restricts(rule) && concerns(rule, operation_, which);
           });
}

void Network::hold_ports(Class which, HeldPorts& held) const {
    Ports allowed, somewhere, shut;
    if (rules_.fallback() == Action::allow) allowed.set(), somewhere.set();
    for (const Rule& rule : rules_.rules()) {
        if (restricts(rule) || !concerns(rule, operation_, which)) continue;
        somewhere |= ports_of(rule);
        if (every_host(rule)) allowed |= ports_of(rule);
    }
    for (const Rule& rule : rules_.rules()) {
        if (!restricts(rule) || !concerns(rule, operation_, which)) continue;
        allowed &= ~ports_of(rule);
        if (every_host(rule)) shut |= ports_of(rule);
    }
    held.ports = ranges_of(allowed);
    keep_few(held.ports, allowed);
    held.exact = (somewhere & ~shut & ~allowed).none();
}

void Network::beyond_ports(Class which, HeldPorts& held, Reasons& minimal) const {
    for (const Rule& rule : rules_.rules()) {
        if (!concerns(rule, operation_, which)) continue;
        if (rule.action == Action::ask || rule.action == Action::kill) held.exact = false;
        const auto because = [&](std::string_view what) {
            minimal.add(rule.id, [&] { return "rule " + rule.id + std::string(what); });
        };
        if (rule.action == Action::ask) because(" asks");
        if (rule.action == Action::kill) because(" kills");
        if (rule.action == Action::deny && rule.error) because(" states an errno");
        if (!held.exact && (!every_host(rule) || !rule.when.port.empty()))
            because(" says more than ports for every host");
    }
    if (rules_.fallback() == Action::ask) {
        held.exact = false;
        minimal.add("default", "the default asks");
    }
    if (!held.exact && minimal.empty()) minimal.add("default", "more ports than Landlock is given");
}

bool has_port_0(const HeldPorts& held) {
    return held.all || (!held.ports.empty() && held.ports.front().first == 0);
}

}  // namespace

NetworkPlan plan_network(const RuleSet& rules, Operation operation, int abi, bool sockets_held,
                         bool reasons) {
    const Network network(rules, operation);
    const std::string verb(name(operation));
    NetworkPlan plan(reasons);
    plan.unix_shut = !network.open(Class::unix_stream) && !rules.opens_unix_datagram();
    network.contested(Class::tcp, "TCP " + verb, plan.contested);
    network.contested(Class::unix_stream, verb + " of unix sockets", plan.contested);
    if (!sockets_held)
        network.contested(Class::unix_stream, verb + " of unix sockets, which Landlock does not hold",
                          plan.minimal_unix);
    if (rules.opens_udp()) {
        network.contested(Class::udp, "UDP " + verb, plan.contested);
        Reasons beyond(reasons);
        network.hold(Class::udp, abi, plan.udp, beyond);
        if (!beyond.empty()) plan.udp.exact = false;
        if (operation == Operation::bind && !has_port_0(plan.udp)) plan.udp.exact = false;
        if (!plan.udp.exact)
            network.contested(Class::udp, "UDP " + verb + ", which Landlock does not hold", plan.minimal);
    }
    if (rules.opens_unix_datagram()) {
        const std::string what = verb + " of unix datagram sockets";
        network.contested(Class::unix_datagram, what, plan.contested);
        if (!sockets_held)
            network.contested(Class::unix_datagram, what + ", which Landlock does not hold",
                              plan.minimal_unix);
    }
    network.hold(Class::tcp, abi, plan.tcp, plan.minimal);
    if (operation == Operation::bind && !has_port_0(plan.tcp))
        plan.minimal.add("landlock", "listen on an unbound socket takes a port that Landlock does not see");
    return plan;
}

bool only_datagrams(const Rule& rule) {
    const Protocols& stated = rule.when.protocol;
    return stated.stated() && !stated.tcp && !stated.stream;
}

}  // namespace callgate::rules::planning
