#include "rules/load/exceptions.hpp"

#include "rules/load/rule_fields.hpp"
#include "rules/model/address.hpp"

namespace callgate::rules {
namespace {

bool is_unix_pattern(const std::string& pattern) {
    return pattern.starts_with('@') || pattern.starts_with('/') || pattern.starts_with('~') ||
           pattern.starts_with("${") || pattern.starts_with("**/");
}

/// Reads the pattern as a condition for this rule's kind of object.
Expected<Conditions> read_pattern(const Rule& rule, const std::string& pattern, PatternMaker& patterns) {
    Conditions conditions;
    const bool files = rule.links || rule.operations.intersects(file_operations);
    if (files || is_unix_pattern(pattern)) {
        std::vector<Glob>& into = files ? conditions.path : conditions.unix_socket;
        if (const Expected<void> made = patterns.make(pattern, !files, into); !made) return made.error();
        return conditions;
    }
    const Expected<Destination> destination = parse_destination(pattern);
    if (!destination) return destination.error();
    if (const auto* block = std::get_if<Cidr>(&destination->host))
        conditions.address.push_back(*block);
    else
        conditions.host.push_back(std::get<HostPattern>(destination->host));
    if (destination->port) conditions.port.push_back(*destination->port);
    conditions.protocol.tcp = destination->protocol == Protocol::tcp;
    conditions.protocol.udp = destination->protocol == Protocol::udp;
    return conditions;
}

template <typename T>
bool take(std::vector<T>& from, std::vector<T>& into) {
    if (from.empty() != into.empty()) return false;
    into.insert(into.end(), from.begin(), from.end());
    return true;
}

/// Joins a second exception into the first. All conditions of one exception must hold, so both must consist
/// of the same single condition. The second then becomes one more element of its list.
bool join(Conditions added, Conditions& into) {
    const bool plain = into.program.empty() && !into.argv && !into.party && into.port == added.port &&
                       into.protocol == added.protocol;
    return plain && take(added.path, into.path) && take(added.unix_socket, into.unix_socket) &&
           take(added.address, into.address) && take(added.host, into.host);
}

}  // namespace

Expected<void> add_exception(std::vector<Rule>& rules, const std::string& id, const std::string& pattern,
                             PatternMaker& patterns) {
    bool found = false;
    std::vector<std::string_view> ids;
    for (Rule& rule : rules) {
        ids.push_back(rule.id);
        if (rule.id != id) continue;
        found = true;
        if (rule.built_in) return Problem{"the built-in rule " + in_quotes(id) + " has no exceptions"};
        Expected<Conditions> added = read_pattern(rule, pattern, patterns);
        if (!added) return added.error();
        if (!rule.except) {
            rule.except = std::move(*added);
        } else if (!join(std::move(*added), *rule.except)) {
            return Problem{"rule " + in_quotes(id) +
                           " has an exception of another kind already: expected it in a rule file"};
        }
    }
    if (found) return {};
    const std::optional<std::string> near = nearest(id, ids);
    return Problem{"there is no rule " + in_quotes(id) + (near ? ": did you mean \"" + *near + "\"?" : "")};
}

}  // namespace callgate::rules
