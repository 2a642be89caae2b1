#include "rules/plan/binds_beneath.hpp"

#include <algorithm>
#include <string>

#include "rules/plan/plan_parts.hpp"

namespace callgate::rules {

namespace {

using planning::names_asker;

/// Whether a branch could match a name of this last component.
bool may_end_in(const Glob::Branch& branch, std::string_view leaf) {
    const std::string text = branch.remainder;
    if (branch.literal) return branch.head.substr(branch.head.rfind('/') + 1) == leaf;
    const std::string_view last = std::string_view(text).substr(text.rfind('/') + 1);
    if (last.find("**") != std::string_view::npos) return true;
    const Expected<Glob> glob = Glob::compile('/' + std::string(last), GlobKind::path);
    return !glob || glob->matches('/' + std::string(leaf));
}

bool may_match(const Glob& glob, std::string_view directory, std::string_view leaf) {
    if (glob.text().starts_with('@')) return false;  // an abstract name
    return glob.may_match_beneath(directory) &&
           std::ranges::any_of(glob.branches(),
                               [leaf](const auto& branch) { return may_end_in(branch, leaf); });
}

bool covers(const std::vector<Glob>& globs, std::string_view directory) {
    return std::ranges::any_of(globs,
                               [directory](const Glob& glob) { return glob.covers_hierarchy(directory); });
}

/// Whether a rule that restricts could decide there, by its patterns of one kind.
bool restricts_there(const Rule& rule, std::string_view directory, std::string_view leaf,
                     std::vector<Glob> Conditions::*kind) {
    if (rule.except) {
        const Conditions& except = *rule.except;
        const bool of_others =
            names_asker(except) || planning::names_endpoints(except) || except.protocol.stated();
        const bool of_both = !except.path.empty() && !except.unix_socket.empty();
        if (!of_others && !of_both && covers(except.*kind, directory)) return false;
    }
    const std::vector<Glob>& patterns = rule.when.*kind;
    return patterns.empty() ||
           std::ranges::any_of(patterns, [&](const Glob& glob) { return may_match(glob, directory, leaf); });
}

bool restricts_there(const Rule& rule, std::string_view directory, std::string_view leaf) {
    if (!planning::restricts(rule)) return false;
    if (rule.operations.contains(Operation::bind) && planning::decides_sockets(rule) &&
        restricts_there(rule, directory, leaf, &Conditions::unix_socket))
        return true;
    return rule.operations.intersects({Operation::create, Operation::modify}) &&
           planning::decides_files(rule) && restricts_there(rule, directory, leaf, &Conditions::path);
}

bool allows_there(const Rule& rule, std::string_view directory, UnixType type) {
    const Protocols& stated = rule.when.protocol;
    const bool of_type = type == UnixType::datagram ? stated.datagram : stated.stream || !stated.stated();
    return rule.action == Action::allow && rule.operations.contains(Operation::bind) && of_type &&
           !rule.except && planning::decides_sockets(rule) && !names_asker(rule.when) &&
           (rule.when.unix_socket.empty() || covers(rule.when.unix_socket, directory));
}

}  // namespace

bool binds_everywhere_beneath(const RuleSet& rules, std::string_view directory, std::string_view leaf,
                              UnixType type) {
    // /dev/shm is decided beyond the rules, and "/" is above it.
    if (directory == "/" || at_or_beneath(directory, "/dev")) return false;
    const auto restricted = [&](const Rule& rule) { return restricts_there(rule, directory, leaf); };
    if (std::ranges::any_of(rules.rules(), restricted) ||
        std::ranges::any_of(rules.quiet_rules(), restricted))
        return false;
    return rules.fallback() == Action::allow || std::ranges::any_of(rules.rules(), [&](const Rule& rule) {
               return allows_there(rule, directory, type);
           });
}

}  // namespace callgate::rules
