#include "rules/load/exceptions.hpp"

#include "rules/model/address.hpp"
#include "rules/load/rule_fields.hpp"

namespace callgate::rules {
namespace {

bool is_unix_pattern(const std::string& pattern) {
    return pattern.starts_with('@') || pattern.starts_with('/') || pattern.starts_with('~') ||
           pattern.starts_with("${") || pattern.starts_with("**/");
}

/// Reads the pattern as a condition for this rule's kind of object.
std::optional<Conditions> read_pattern(const Rule& rule, const std::string& pattern, PatternMaker& patterns,
                                       std::string& error) {
    Conditions conditions;
    const bool files = rule.operations.intersects(file_operations);
    if (files || is_unix_pattern(pattern)) {
        if (!patterns.make(pattern, !files, files ? conditions.path : conditions.unix_socket, error))
            return std::nullopt;
        return conditions;
    }
    const std::optional<Destination> destination = parse_destination(pattern, error);
    if (!destination) return std::nullopt;
    if (const auto* block = std::get_if<Cidr>(&destination->host))
        conditions.address.push_back(*block);
    else
        conditions.host.push_back(std::get<HostPattern>(destination->host));
    if (!conditions.host.empty() && conditions.host.front().suffix) {
        error = "this version cannot yet enforce \"*.suffix\"; expected a full name";
        return std::nullopt;
    }
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
    const bool plain =
        into.program.empty() && !into.argv && into.port == added.port && into.protocol == added.protocol;
    return plain && take(added.path, into.path) && take(added.unix_socket, into.unix_socket) &&
           take(added.address, into.address) && take(added.host, into.host);
}

}  // namespace

bool add_exception(std::vector<Rule>& rules, const std::string& id, const std::string& pattern,
                   PatternMaker& patterns, std::string& error) {
    bool found = false;
    std::vector<std::string_view> ids;
    for (Rule& rule : rules) {
        ids.push_back(rule.id);
        if (rule.id != id) continue;
        found = true;
        if (rule.built_in) {
            error = "the built-in rule " + in_quotes(id) + " has no exceptions";
            return false;
        }
        std::optional<Conditions> added = read_pattern(rule, pattern, patterns, error);
        if (!added) return false;
        if (!rule.except) {
            rule.except = std::move(added);
        } else if (!join(std::move(*added), *rule.except)) {
            error = "rule " + in_quotes(id) +
                    " has an exception of another kind already: expected it in a rule file";
            return false;
        }
    }
    if (found) return true;
    const std::optional<std::string> near = nearest(id, ids);
    error = "there is no rule " + in_quotes(id) + (near ? ": did you mean \"" + *near + "\"?" : "");
    return false;
}

}  // namespace callgate::rules
