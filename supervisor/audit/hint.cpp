// Finds the option of `callgate run` that would allow a denied call.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/at_or_beneath.hpp"
#include "base/credential_name.hpp"
#include "base/escape.hpp"
#include "base/test_switch.hpp"
#include "rules/load/pattern.hpp"
#include "rules/model/address.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/run/report.hpp"

namespace callgate {

namespace {

using audit::Decision;
using rules::Action;
using rules::OperationSet;

/// The object that the verdict is about: for rename and link, `create` is judged at the second name.
rules::Object judged_object(const Decision& decision) {
    if (decision.second_object && decision.operation == rules::Operation::create)
        return *decision.second_object;
    return decision.object;
}

std::string endpoint_text(const rules::Endpoint& endpoint) {
    Buffer out(96);
    if (endpoint.address.v6) out << '[';
    audit::append_address(out, endpoint.address);
    if (endpoint.address.v6) out << ']';
    out << ':' << endpoint.port;
    if (endpoint.protocol == rules::Protocol::udp) out << "/udp";
    return std::string(out.view());
}

/// No argument holds a NUL: a shell would cut the word there, and so name another socket.
bool fits_argument(std::string_view name) { return name.find('\0') == std::string_view::npos; }

/// The name as an option takes it. A raw query may hold anything.
std::optional<std::string> one_host(std::string_view name) {
    return rules::is_one_host(name) ? std::optional<std::string>(name) : std::nullopt;
}

/// The pattern that --except takes for this object.
std::optional<std::string> exception_pattern(const rules::Object& object) {
    if (const auto* file = std::get_if<rules::FileObject>(&object)) return rules::option_pattern(file->path);
    if (const auto* local = std::get_if<rules::UnixObject>(&object))
        return rules::option_pattern(local->name);
    if (const auto* host = std::get_if<rules::HostName>(&object)) return one_host(host->name);
    return endpoint_text(std::get<rules::Endpoint>(object));
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

/// The option that lets a Python environment or the directory of a git repository be read, if the file
/// belongs to one; "" if not. Programs need all of it or nothing. A run makes none where it may not write, so
/// it cannot choose what is named.
std::string option_for_whole(std::string_view path, const std::string& home) {
    constexpr std::array<std::string_view, 6> of_python{"bin",   "include", "lib",
                                                        "lib64", "share",   "pyvenv.cfg"};
    constexpr int max_depth = 64;
    std::string directory(path);
    for (int depth = 0; depth < max_depth; ++depth) {
        directory.resize(std::min(directory.rfind('/'), directory.size()));
        if (!is_small_tree(directory, home)) return {};
        const std::string_view beneath = path.substr(directory.size() + 1);
        const bool of_environment =
            std::ranges::find(of_python, beneath.substr(0, beneath.find('/'))) != of_python.end();
        if (of_environment && exists(directory + "/pyvenv.cfg")) return "--execute " + shell_quote(directory);
        if (exists(directory + "/HEAD") && exists(directory + "/objects") && exists(directory + "/refs"))
            return "--read " + shell_quote(directory);
    }
    return {};
}

/// The same in place of the option for a file. Only for what reads: a repository that may be written has
/// hooks.
std::string option_for_whole(const rules::Object& object, OperationSet operations, const std::string& home) {
    const auto* const file = std::get_if<rules::FileObject>(&object);
    if (file == nullptr || file->unlinked || operations.intersects(rules::write_operations)) return {};
    return option_for_whole(file->path, home);
}

/// Whether the kernel picked this name (unix(7), *Autobind feature*): it is another one in each run.
bool is_picked(std::string_view name) {
    constexpr std::size_t length = 1 + 5;
    return name.size() == length && name.front() == '@' &&
           name.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

/// Whether an abstract name was made of the run's private directory, which has another name in each run.
bool is_of_this_run(std::string_view name) {
    return name.starts_with("@/") &&
           name.find("/callgate-" + std::to_string(::getuid()) + "-") != std::string_view::npos;
}

/// --read, --write, ... for an object that no rule allows. Returns nullopt if no option names such objects.
std::optional<std::string> allowing_option(const rules::Object& object, OperationSet operations) {
    if (const auto* file = std::get_if<rules::FileObject>(&object)) {
        if (file->unlinked) return std::nullopt;
        const char* const option = operations.contains(rules::Operation::execute)   ? "--execute "
                                   : operations.intersects(rules::write_operations) ? "--write "
                                                                                    : "--read ";
        return option + shell_quote(file->path);
    }
    const bool binds = operations.contains(rules::Operation::bind);
    if (const auto* local = std::get_if<rules::UnixObject>(&object)) {
        // The options allow stream and seqpacket sockets; an empty name is no name.
        if (local->type == rules::UnixType::datagram || local->name.empty() || !fits_argument(local->name) ||
            (!binds && is_picked(local->name)) || is_of_this_run(local->name))
            return std::nullopt;
        const std::string name(local->name);
        return (binds ? "--bind " : "--connect ") +
               shell_quote(name.starts_with('@') ? name : "unix:" + name);
    }
    if (const auto* host = std::get_if<rules::HostName>(&object)) {
        const std::optional<std::string> name = one_host(host->name);
        return name ? std::optional("--connect " + shell_quote(*name)) : std::nullopt;
    }
    const auto& endpoint = std::get<rules::Endpoint>(object);
    if (!binds) return "--connect " + shell_quote(endpoint_text(endpoint));
    // A port alone is for every address: who asked for one of this machine alone gets no more.
    if (!rules::is_any(endpoint.address)) return "--bind " + shell_quote(endpoint_text(endpoint));
    return "--bind " + std::to_string(endpoint.port) +
           (endpoint.protocol == rules::Protocol::udp ? "/udp" : "");
}

/// R picks a port anew for each cluster of workers (`parallel::makeCluster`), so the option is for all of
/// them. "" for every other program and port.
std::string option_for_picked_port(const rules::Object& object, OperationSet operations,
                                   std::string_view program) {
    constexpr std::uint16_t first = 11000, last = 11999;
    const auto* const endpoint = std::get_if<rules::Endpoint>(&object);
    if (endpoint == nullptr || operations != OperationSet(rules::Operation::bind) ||
        !program.ends_with("/bin/exec/R") || endpoint->protocol != rules::Protocol::tcp ||
        !rules::is_any(endpoint->address) || endpoint->port < first || endpoint->port > last)
        return {};
    return "--bind " + std::to_string(first) + '-' + std::to_string(last);
}

std::optional<std::string> except_option(const rules::Rule& rule, const rules::Object& object) {
    if (rule.built_in) return std::nullopt;
    const std::optional<std::string> pattern = exception_pattern(object);
    // The first '=' ends the rule's name.
    if (!pattern || rule.id.find('=') != std::string::npos) return std::nullopt;
    return "--except " + shell_quote(rule.id + '=' + *pattern);
}

/// Whether an option could have changed the decision.
bool decided_by_rules(const Decision& decision) {
    switch (decision.verdict.decided_by) {
        case rules::DecidedBy::rule:
        case rules::DecidedBy::fallback:
        case rules::DecidedBy::timeout:
            return true;
        default:
            return false;
    }
}

OperationSet all_operations(const Decision& decision) {
    OperationSet operations =
        decision.operations.empty() ? OperationSet(decision.operation) : decision.operations;
    if (decision.second_object) operations = decision.operation;
    return operations;
}

/// The rules that stand against a call, operation by operation.
struct Obstacles {
    std::vector<const rules::Rule*> restricting;  // each rule once
    OperationSet not_allowed;                     // neither by a rule nor by the default
};

Obstacles obstacles(const Decision& decision, const rules::RuleSet& rules, const rules::Object& object) {
    Obstacles found;
    const OperationSet operations = all_operations(decision);
    const rules::Request request{operations, object, decision.caller.executable, decision.input.arguments,
                                 decision.caller.party.value_or(rules::Party::tools)};
    for (const rules::Operation operation : operations) {
        bool allowed = rules.fallback() == Action::allow;
        for (const rules::Rule* rule : rules.matching(request, operation)) {
            allowed = allowed || rule->action == Action::allow;
            if (rule->action == Action::allow) continue;
            if (std::find(found.restricting.begin(), found.restricting.end(), rule) ==
                found.restricting.end()) {
                found.restricting.push_back(rule);
            }
        }
        if (!allowed) found.not_allowed |= operation;
    }
    return found;
}

}  // namespace

std::string object_text(const Decision& decision) {
    const rules::Object object = judged_object(decision);
    if (const auto* file = std::get_if<rules::FileObject>(&object)) return std::string(file->path);
    if (const auto* local = std::get_if<rules::UnixObject>(&object)) return std::string(local->name);
    if (const auto* host = std::get_if<rules::HostName>(&object)) return std::string(host->name);
    return endpoint_text(std::get<rules::Endpoint>(object));
}

std::string hint(const Decision& decision) {
    if (!decided_by_rules(decision)) return {};
    const rules::Object object = judged_object(decision);
    const rules::Rule* const rule = decision.verdict.rule;
    return (rule != nullptr && !rule->quiet ? except_option(*rule, object)
                                            : allowing_option(object, all_operations(decision)))
        .value_or("");
}

std::string hint(const Decision& decision, const rules::RuleSet& rules) {
    if (!decided_by_rules(decision)) return {};
    const rules::Object object = judged_object(decision);
    const Obstacles found = obstacles(decision, rules, object);
    std::string text;
    const auto add = [&text](const std::optional<std::string>& option) {
        if (option) text += (text.empty() ? "" : " ") + *option;
        return option.has_value();
    };
    for (const rules::Rule* rule : found.restricting) {
        if (!add(except_option(*rule, object))) return {};
    }
    if (!found.not_allowed.empty() && !add(allowing_option(object, found.not_allowed))) return {};
    return text;
}

std::string offered_hint(const Decision& decision, const rules::RuleSet* rules, const std::string& home) {
    const auto restricts = [](const rules::Rule* rule) {
        return rule->action == Action::deny || rule->action == Action::kill;
    };
    if (decision.verdict.rule != nullptr && restricts(decision.verdict.rule)) return {};
    const rules::Object object = judged_object(decision);
    if (const auto* file = std::get_if<rules::FileObject>(&object)) {
        if (may_hold_credential(file->path) && check_enabled("hint-credential")) return {};
        // The option would allow all that lies beneath.
        if (!home.empty() && at_or_beneath(home, file->path)) return {};
    }
    if (rules == nullptr) return hint(decision);
    const Obstacles found = obstacles(decision, *rules, object);
    if (std::ranges::any_of(found.restricting, restricts)) return {};
    if (found.restricting.empty() && !found.not_allowed.empty() && decided_by_rules(decision)) {
        std::string profile = offered_profile(object, decision.caller.executable, *rules);
        if (profile.empty()) profile = offered_profile(object, found.not_allowed, *rules, home);
        if (!profile.empty()) return "-p " + profile;
        std::string picked = option_for_picked_port(object, found.not_allowed, decision.caller.executable);
        if (!picked.empty()) return picked;
    }
    std::string option = hint(decision, *rules);
    if (!found.restricting.empty() || option.empty()) return option;
    const std::string whole = option_for_whole(object, found.not_allowed, home);
    return whole.empty() ? option : whole;
}

}  // namespace callgate
