#include "rules/load/covers.hpp"

#include <string_view>

namespace callgate::rules {

namespace {

bool covers_block(const Cidr& wide, const Cidr& narrow) {
    return wide.prefix <= narrow.prefix && wide.contains(narrow.address);
}

/// If no protocol is stated, deny and kill cover all protocols; allow and ask cover TCP and connected unix
/// sockets.
bool covers_protocols(const Rule& wide, const Rule& narrow) {
    const Protocols& one = wide.when.protocol;
    const Protocols& other = narrow.when.protocol;
    if (one == other && (wide.action > Action::ask) >= (narrow.action > Action::ask)) return true;
    if (!one.stated()) return wide.action > Action::ask;
    if (!other.stated()) return false;
    return one.tcp >= other.tcp && one.udp >= other.udp && one.stream >= other.stream &&
           one.datagram >= other.datagram;
}

}  // namespace

bool covers_glob(const Glob& wide, const Glob& narrow) {
    if (wide == narrow) return true;
    return std::all_of(narrow.branches().begin(), narrow.branches().end(), [&](const Glob::Branch& branch) {
        return branch.literal ? wide.matches(branch.head) : wide.covers_hierarchy(branch.head);
    });
}

bool covers_rule(const Rule& wide, const Rule& narrow) {
    const Conditions& one = wide.when;
    const Conditions& other = narrow.when;
    const auto same_host = [](const HostPattern& left, const HostPattern& right) {
        return left.text == right.text;
    };
    const auto ports = [](const PortRange& left, const PortRange& right) {
        return left.first <= right.first && right.last <= left.last;
    };
    return !wide.except && !one.argv && (!one.party || one.party == other.party) &&
           one.run_server <= other.run_server && wide.operations.contains_all(narrow.operations) &&
           covers_list(one.path, other.path, covers_glob) &&
           covers_list(one.unix_socket, other.unix_socket, covers_glob) &&
           covers_list(one.program, other.program, covers_glob) &&
           covers_list(one.host, other.host, same_host) &&
           covers_list(one.address, other.address, covers_block) &&
           covers_list(one.port, other.port, ports) && covers_protocols(wide, narrow);
}

std::string sample_path(const Glob::Branch& branch) {
    std::string path = branch.head == "/" ? "" : branch.head;
    std::string_view rest = branch.remainder;
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const std::string_view component = rest.substr(0, rest.find('/'));
        rest.remove_prefix(component.size());
        if (component == "**") {
            // "**" needs a name only at the end.
            if (rest.empty()) path += "/sample";
            continue;
        }
        path += '/';
        for (std::size_t at = 0; at < component.size(); ++at) {
            if (component[at] == '*') {
                path += at > 0 && component[at - 1] == '*' ? "" : "sample";
            } else if (component[at] == '[') {
                // Takes the first byte of a class, or one that is in no negated class of a shipped pattern.
                const bool negated = component.substr(at + 1, 1) == "!" || component.substr(at + 1, 1) == "^";
                path += negated ? '~' : component[std::min(at + 1, component.size() - 1)];
                at = std::min(component.find(']', at + 2), component.size() - 1);
            } else if (component[at] == '?') {
                path += 'x';
            } else {
                if (component[at] == '\\') ++at;
                path += component[at];
            }
        }
    }
    return path.empty() ? "/" : path;
}

}  // namespace callgate::rules
