#include "supervisor/cli/rule_options.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/landlock.hpp"
#include "rules/address.hpp"
#include "supervisor/cli/failure.hpp"

namespace callgate::cli {

namespace {

using rules::Operation;
using rules::OperationSet;

constexpr OperationSet read_and_write = rules::write_operations | OperationSet{Operation::read};

/// A rule made by an option: "option-read#1".
rules::Rule option_rule(std::string_view option, std::size_t index, rules::Action action,
                        OperationSet operations) {
    rules::Rule rule;
    rule.id = "option-" + std::string(option) + "#" + std::to_string(index + 1);
    rule.action = action;
    rule.operations = operations;
    rule.source.file = "option --" + std::string(option);
    return rule;
}

/// A file is itself; a directory, and what does not exist yet, is everything beneath.
rules::Glob path_glob(const Arguments& arguments, std::string_view option, const std::string& path,
                      const std::string& home) {
    if (path.empty())
        throw Failure(arguments.origin(option) + " needs a path; expected a file or a directory");
    const std::string resolved = absolute(path, home);
    struct stat status {};
    const bool file = ::stat(resolved.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
    return file ? rules::Glob::literal(resolved) : rules::Glob::beneath(resolved);
}

void add_paths(std::vector<rules::Rule>& all, const Arguments& arguments, std::string_view option,
               OperationSet operations, const std::string& home) {
    const std::vector<std::string>& paths = arguments.values(option);
    for (std::size_t index = 0; index < paths.size(); ++index) {
        rules::Rule rule = option_rule(option, index, rules::Action::allow, operations);
        rule.when.path.push_back(path_glob(arguments, option, paths[index], home));
        all.push_back(std::move(rule));
    }
}

void add_denials(std::vector<rules::Rule>& all, const Arguments& arguments, const std::string& home) {
    const std::vector<std::string>& paths = arguments.values("deny");
    for (std::size_t index = 0; index < paths.size(); ++index) {
        const rules::Glob glob = path_glob(arguments, "deny", paths[index], home);
        rules::Rule files = option_rule("deny", index, rules::Action::deny, read_and_write);
        files.when.path.push_back(glob);
        rules::Rule sockets = option_rule("deny", index, rules::Action::deny, rules::network_operations);
        sockets.id += "-sockets";
        sockets.when.unix_socket.push_back(glob);
        all.push_back(std::move(files));
        all.push_back(std::move(sockets));
    }
}

/// "unix:PATH" or "@name".
bool add_unix_socket(rules::Conditions& when, const std::string& text, const std::string& home) {
    if (text.starts_with("@")) {
        when.unix_socket.push_back(rules::Glob::literal(text));
        return true;
    }
    if (!text.starts_with("unix:")) return false;
    const std::string name = text.substr(5);
    when.unix_socket.push_back(rules::Glob::literal(name.starts_with("@") ? name : absolute(name, home)));
    return true;
}

void set_host(rules::Conditions& when, rules::HostPattern host, const std::string& what,
              const rules::LoadContext& context) {
    if (host.suffix)
        throw Failure(what +
                      ": *.suffix cannot be allowed in this version; name each host, or an address block");
    host.resolved = context.resolve(host.text);
    if (host.resolved.empty())
        throw Failure(what + ": the name " + host.text +
                      " has no address (names are resolved at the start); check it or give the address");
    when.host.push_back(std::move(host));
}

void set_protocol(rules::Conditions& when, const std::optional<rules::Protocol>& protocol) {
    if (!protocol) return;
    when.protocol.tcp = *protocol == rules::Protocol::tcp;
    when.protocol.udp = *protocol == rules::Protocol::udp;
}

void add_connections(RuleChoice& choice, const Arguments& arguments, const rules::LoadContext& context) {
    const std::vector<std::string>& targets = arguments.values("connect");
    for (std::size_t index = 0; index < targets.size(); ++index) {
        rules::Rule rule = option_rule("connect", index, rules::Action::allow, Operation::connect);
        if (!add_unix_socket(rule.when, targets[index], context.home)) {
            const std::string what = arguments.origin("connect") + " " + targets[index];
            std::string error;
            std::optional<rules::Destination> target = rules::parse_destination(targets[index], error);
            if (!target)
                throw Failure(what + ": " + error + "; expected HOST[:PORT][/udp], such as 127.0.0.1:8080");
            if (auto* host = std::get_if<rules::HostPattern>(&target->host)) {
                set_host(rule.when, std::move(*host), what, context);
                choice.host_static = true;
            } else {
                rule.when.address.push_back(std::get<rules::Cidr>(target->host));
            }
            if (target->port) rule.when.port.push_back(*target->port);
            set_protocol(rule.when, target->protocol);
        }
        choice.sources.option_rules.push_back(std::move(rule));
    }
}

void add_ports(std::vector<rules::Rule>& all, const Arguments& arguments) {
    const std::vector<std::string>& values = arguments.values("bind");
    for (std::size_t index = 0; index < values.size(); ++index) {
        std::string_view text = values[index];
        std::optional<rules::Protocol> protocol;
        if (text.ends_with("/udp")) protocol = rules::Protocol::udp;
        if (text.ends_with("/tcp")) protocol = rules::Protocol::tcp;
        if (protocol) text.remove_suffix(4);
        std::string error;
        const std::optional<rules::PortRange> ports = rules::parse_ports(text, error);
        if (!ports)
            throw Failure(arguments.origin("bind") + " " + values[index] + ": " + error +
                          "; expected PORT[/udp], such as 8080 or 8000-8999");
        rules::Rule rule = option_rule("bind", index, rules::Action::allow, Operation::bind);
        rule.when.port.push_back(*ports);
        set_protocol(rule.when, protocol);
        all.push_back(std::move(rule));
    }
}

void add_profile(RuleChoice& choice, const std::string& name, const rules::LoadContext& context) {
    std::vector<std::string_view> known;
    for (const rules::ShippedProfile& profile : rules::shipped_profiles()) known.push_back(profile.name);
    const std::string own = context.config + "/profiles/" + name + ".json";
    const bool plain = !name.empty() && name.find('/') == std::string::npos;
    const bool exists = std::find(known.begin(), known.end(), name) != known.end() ||
                        (plain && !context.config.empty() && ::access(own.c_str(), F_OK) == 0);
    if (!exists) {
        const std::string near = suggestion(name, known);
        throw Failure("unknown profile " + name + (near.empty() ? "; callgate profiles lists them" : near));
    }
    choice.profiles.push_back(name);
    choice.sources.parts.emplace_back(rules::RuleSources::Profile{name});
}

void add_file(RuleChoice& choice, const Arguments& arguments, const std::string& file) {
    struct stat status {};
    const std::string what = arguments.origin("rules") + " " + file;
    if (::stat(file.c_str(), &status) != 0)
        throw Failure(what + ": " + std::strerror(errno) +
                      "; expected a rule set file (callgate profiles agent prints one)");
    if (!S_ISREG(status.st_mode)) throw Failure(what + ": not a regular file; expected a rule set file");
    choice.files.push_back(file);
    choice.sources.parts.emplace_back(rules::RuleSources::File{file});
}

void add_exceptions(RuleChoice& choice, const Arguments& arguments) {
    for (const std::string& text : arguments.values("except")) {
        const std::size_t equals = text.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
            throw Failure(arguments.origin("except") + " " + text +
                          ": expected RULE=PATTERN, such as secrets=" + "~/.ssh/config");
        choice.sources.exceptions.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
}

void set_default(RuleChoice& choice, const Arguments& arguments) {
    const std::optional<std::string> value = arguments.value("default");
    if (!value) return;
    for (const rules::Action action : {rules::Action::allow, rules::Action::ask, rules::Action::deny})
        if (*value == rules::name(action)) choice.sources.fallback = action;
    if (choice.sources.fallback) return;
    constexpr std::string_view words[] = {"allow", "ask", "deny"};
    throw Failure(arguments.origin("default") + " " + *value + ": expected allow, ask or deny" +
                  suggestion(*value, words));
}

/// Built-in rules must name every rule file; `extends` shows some of them only by loading.
void load_with_built_in(CompiledRules& compiled, const Places& places, const rules::LoadContext& context,
                        const std::string& audit_file) {
    std::vector<std::string> known = compiled.choice.files;
    for (int round = 0; round < 2; ++round) {
        std::vector<std::string> files;
        for (const std::string& file : known)
            files.push_back(file.starts_with('/') ? file : absolute("./" + file, ""));
        compiled.choice.sources.built_in = built_in_rules(places, files, audit_file);
        compiled.loaded = rules::load(compiled.choice.sources, context);
        const bool all_known = std::all_of(
            compiled.loaded.files.begin(), compiled.loaded.files.end(),
            [&](const auto& file) { return std::find(known.begin(), known.end(), file) != known.end(); });
        if (all_known || !compiled.loaded.ok()) return;
        known = compiled.loaded.files;
    }
}

void say_diagnostics(const rules::LoadedRules& loaded, bool warnings) {
    std::size_t errors = 0;
    for (const rules::Diagnostic& one : loaded.diagnostics) {
        const bool error = one.severity == rules::Diagnostic::Severity::error;
        errors += error ? 1 : 0;
        if (error || warnings) say(one.text());
    }
    if (loaded.ok()) return;
    throw Failure(std::to_string(errors) + (errors == 1 ? " error" : " errors") +
                  " in the rules; nothing ran");
}

}  // namespace

std::string absolute(const std::string& path, const std::string& home) {
    if (path == "~" && !home.empty()) return home;
    if (path.starts_with("~/") && !home.empty()) return canonical(home + path.substr(1));
    if (path.starts_with('/')) return canonical(path);
    char current[4096];
    if (::getcwd(current, sizeof current) == nullptr)
        throw Failure("the current directory is gone or too deep; change to another, or give absolute paths");
    return canonical(std::string(current) + "/" + path);
}

std::string private_directory_name(const std::string& run) {
    const char* base = std::getenv("TMPDIR");
    const std::string directory = canonical(base != nullptr && base[0] == '/' ? base : "/tmp");
    return (directory == "/" ? "" : directory) + "/callgate-" + std::to_string(::getuid()) + "-" + run;
}

bool is_wide(const std::string& workdir, const Places& places) {
    if (workdir == "/") return true;
    return !places.home.empty() && (places.home == workdir || places.home.starts_with(workdir + "/"));
}

std::string choose_workdir(const Arguments& arguments, const Places& places, bool refuse_wide) {
    const std::optional<std::string> named = arguments.value("workdir");
    const std::string workdir = absolute(named.value_or("."), places.home);
    struct stat status {};
    if (::stat(workdir.c_str(), &status) != 0)
        throw Failure(arguments.origin("workdir") + " " + named.value_or(workdir) + ": " +
                      std::strerror(errno) + "; expected an existing directory");
    if (!S_ISDIR(status.st_mode))
        throw Failure(arguments.origin("workdir") + " " + named.value_or(workdir) + ": not a directory");
    if (refuse_wide && !named && is_wide(workdir, places))
        throw Failure("the work directory would be " + workdir + ", which is " +
                      (workdir == places.home ? "your home"
                       : workdir == "/"       ? "the whole system"
                                              : "above your home") +
                      "; change to a project's directory, or name it with --workdir");
    return workdir;
}

rules::RecordMode read_record_mode(const Arguments& arguments) {
    const std::string word = arguments.value("record").value_or("contested");
    if (word == "minimal") return rules::RecordMode::minimal;
    if (word == "contested") return rules::RecordMode::contested;
    if (word == "all") return rules::RecordMode::all;
    constexpr std::string_view words[] = {"minimal", "contested", "all"};
    throw Failure(arguments.origin("record") + " " + word + ": expected minimal, contested or all" +
                  suggestion(word, words));
}

RuleChoice read_rule_options(const Arguments& arguments, const rules::LoadContext& context) {
    RuleChoice choice;
    std::vector<std::string> profiles = arguments.values("profile");
    if (profiles.empty() && !arguments.has("rules") && !arguments.has("rules-json")) profiles = {"agent"};
    for (const std::string& name : profiles) add_profile(choice, name, context);
    for (const std::string& file : arguments.values("rules")) add_file(choice, arguments, file);
    const std::vector<std::string>& texts = arguments.values("rules-json");
    for (std::size_t index = 0; index < texts.size(); ++index)
        choice.sources.parts.emplace_back(rules::RuleSources::Text{
            texts[index], index == 0 ? "--rules-json" : "--rules-json#" + std::to_string(index + 1)});
    const std::string accepted = context.config + "/rules.json";
    if (!profiles.empty() && !arguments.has("no-user-rules") && !context.config.empty() &&
        ::faccessat(AT_FDCWD, accepted.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        choice.files.push_back(accepted);
        choice.sources.parts.emplace_back(rules::RuleSources::File{accepted});
    }
    std::vector<rules::Rule>& made = choice.sources.option_rules;
    add_paths(made, arguments, "read", Operation::read, context.home);
    add_paths(made, arguments, "write", read_and_write, context.home);
    add_paths(made, arguments, "execute", {Operation::read, Operation::execute}, context.home);
    add_denials(made, arguments, context.home);
    add_connections(choice, arguments, context);
    add_ports(made, arguments);
    add_exceptions(choice, arguments);
    set_default(choice, arguments);
    return choice;
}

CompiledRules compile_rules(const Arguments& arguments, const Places& places,
                            const rules::LoadContext& context, const std::string& audit_file, bool warnings) {
    const rules::RecordMode record = read_record_mode(arguments);
    CompiledRules compiled;
    compiled.choice = read_rule_options(arguments, context);
    load_with_built_in(compiled, places, context, audit_file);
    say_diagnostics(compiled.loaded, warnings);
    std::vector<std::string>& degraded = compiled.loaded.degraded;
    if (compiled.choice.host_static &&
        std::find(degraded.begin(), degraded.end(), "host-static") == degraded.end())
        degraded.emplace_back("host-static");
    compiled.plan = rules::make_plan(
        *compiled.loaded.rules,
        {.landlock_abi = agent::kernel_landlock_abi(), .record = record, .tree = context.tree});
    return compiled;
}

}  // namespace callgate::cli
