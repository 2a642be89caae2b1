// Rules from the options -r, -w, -x, -d, -c, --bind.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/read_whole.hpp"
#include "base/unique_fd.hpp"
#include "rules/load/pattern.hpp"
#include "rules/model/address.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/gpu.hpp"
#include "supervisor/cli/rule_options.hpp"

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

/// Resolves paths of options. For a recorded run, the targets of that time are used.
struct Paths {
    const rules::LoadContext& context;
    std::map<std::string, std::string>& links;
    LinkedPaths& linked;

    /// `what` names the option, and `opens` says whether its rule allows something.
    [[nodiscard]] std::string resolved(const std::string& what, const std::string& path, bool opens) const {
        // "~" in an option is the user's own home, as the shell has it.
        std::string written = written_out(path, context.user_home.empty() ? context.home : context.user_home);
        if (auto then = context.earlier != nullptr ? context.earlier->led(written) : std::nullopt)
            return *then;
        std::string real = linked.resolve(what, written, opens);
        if (real != written) links.emplace(std::move(written), real);
        return real;
    }
};

constexpr std::string_view pattern_prefix = "glob:", connect_prefix = "connect:";

/// "glob:DIRECTORY/PATTERN": names in a directory, which is no pattern. So a star in the name of a directory
/// means itself, and links on the way are resolved as in a path.
rules::Glob name_glob(const std::string& what, std::string_view text, bool opens, const Paths& paths_of) {
    const std::size_t slash = text.rfind('/');
    const std::string directory(
        slash == std::string_view::npos ? "." : text.substr(0, std::max<std::size_t>(slash, 1)));
    const std::string_view name = text.substr(slash == std::string_view::npos ? 0 : slash + 1);
    const std::string resolved = paths_of.resolved(what, directory, opens);
    auto glob =
        rules::Glob::compile((resolved == "/" ? "" : rules::quote_glob(resolved)) + '/' + std::string(name),
                             rules::GlobKind::path);
    if (name.empty() || name == "**" || !glob)
        throw Failure(what + ": " + (glob ? "no names in a directory" : glob.error().text) +
                      "; expected glob:DIRECTORY/PATTERN, such as '" + "glob:~/.tool.tmp.*'");
    return std::move(*glob);
}

/// A file matches itself. A directory, or a path that does not exist yet, matches everything beneath it.
rules::Glob path_glob(const Arguments& arguments, std::string_view option, const std::string& path,
                      const Paths& paths_of) {
    if (path.empty())
        throw Failure(arguments.origin(option) + " needs a path; expected a file or a directory");
    const std::string what = arguments.origin(option) + " " + path;
    if (path.starts_with(pattern_prefix))
        return name_glob(what, std::string_view(path).substr(pattern_prefix.size()), option != "deny",
                         paths_of);
    const std::string resolved = paths_of.resolved(what, path, option != "deny");
    struct stat status {};
    const bool file = ::stat(resolved.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
    return file ? rules::Glob::literal(resolved) : rules::Glob::beneath(resolved);
}

void add_paths(std::vector<rules::Rule>& all, const Arguments& arguments, std::string_view option,
               OperationSet operations, const Paths& of) {
    const std::vector<std::string>& paths = arguments.values(option);
    for (std::size_t index = 0; index < paths.size(); ++index) {
        rules::Rule rule = option_rule(option, index, rules::Action::allow, operations);
        rule.when.path.push_back(path_glob(arguments, option, paths[index], of));
        all.push_back(std::move(rule));
    }
}

void set_protocol(rules::Conditions& when, const std::optional<rules::Protocol>& protocol) {
    if (!protocol) return;
    when.protocol.tcp = *protocol == rules::Protocol::tcp;
    when.protocol.udp = *protocol == rules::Protocol::udp;
}

/// Reads "HOST[:PORT][/udp]".
void set_destination(rules::Conditions& when, const std::string& what, std::string_view text) {
    if (text == "*" || text.starts_with("*:") || text.starts_with("*/"))
        throw Failure(what +
                      ": no word means every host; all public addresses are allowed by -p network, and "
                      "all addresses are 0.0.0.0/0 and ::/0");
    Expected<rules::Destination> target = rules::parse_destination(text);
    if (!target)
        throw Failure(what + ": " + target.error().text +
                      "; expected HOST[:PORT][/udp], such as 127.0.0.1:8080");
    if (auto* host = std::get_if<rules::HostPattern>(&target->host)) {
        when.host.push_back(std::move(*host));
    } else {
        when.address.push_back(std::get<rules::Cidr>(target->host));
    }
    if (target->port) when.port.push_back(*target->port);
    set_protocol(when, target->protocol);
}

void add_denials(std::vector<rules::Rule>& all, const Arguments& arguments, const Paths& of) {
    const std::vector<std::string>& paths = arguments.values("deny");
    for (std::size_t index = 0; index < paths.size(); ++index) {
        if (paths[index].starts_with(connect_prefix)) {
            all.push_back(option_rule("deny", index, rules::Action::deny, Operation::connect));
            set_destination(all.back().when, arguments.origin("deny") + " " + paths[index],
                            std::string_view(paths[index]).substr(connect_prefix.size()));
            continue;
        }
        const rules::Glob glob = path_glob(arguments, "deny", paths[index], of);
        rules::Rule files = option_rule("deny", index, rules::Action::deny, rules::file_operations);
        files.when.path.push_back(glob);
        rules::Rule sockets = option_rule("deny", index, rules::Action::deny, rules::network_operations);
        sockets.id += "-sockets";
        sockets.when.unix_socket.push_back(glob);
        all.push_back(std::move(files));
        all.push_back(std::move(sockets));
    }
}

/// Reads "unix:PATH", "unix:glob:DIRECTORY/PATTERN" or "@name".
bool add_unix_socket(rules::Conditions& when, const std::string& what, const std::string& text,
                     const Paths& of) {
    if (text.starts_with("@")) {
        when.unix_socket.push_back(rules::Glob::literal(text));
        return true;
    }
    if (!text.starts_with("unix:")) return false;
    const std::string name = text.substr(5);
    if (name.starts_with(pattern_prefix)) {
        when.unix_socket.push_back(
            name_glob(what, std::string_view(name).substr(pattern_prefix.size()), true, of));
        return true;
    }
    when.unix_socket.push_back(
        rules::Glob::literal(name.starts_with("@") ? name : of.resolved(what, name, true)));
    return true;
}

void add_connections(RuleChoice& choice, const Arguments& arguments, const Paths& of) {
    const std::vector<std::string>& targets = arguments.values("connect");
    for (std::size_t index = 0; index < targets.size(); ++index) {
        rules::Rule rule = option_rule("connect", index, rules::Action::allow, Operation::connect);
        const std::string what = arguments.origin("connect") + " " + targets[index];
        if (!add_unix_socket(rule.when, what, targets[index], of))
            set_destination(rule.when, what, targets[index]);
        choice.sources.option_rules.push_back(std::move(rule));
    }
}

void add_binds(std::vector<rules::Rule>& all, const Arguments& arguments, const Paths& of) {
    const std::vector<std::string>& values = arguments.values("bind");
    for (std::size_t index = 0; index < values.size(); ++index) {
        rules::Rule rule = option_rule("bind", index, rules::Action::allow, Operation::bind);
        const std::string what = arguments.origin("bind") + " " + values[index];
        if (add_unix_socket(rule.when, what, values[index], of)) {
            all.push_back(std::move(rule));
            continue;
        }
        std::string_view text = values[index];
        std::optional<rules::Protocol> protocol;
        if (text.ends_with("/udp")) protocol = rules::Protocol::udp;
        if (text.ends_with("/tcp")) protocol = rules::Protocol::tcp;
        if (protocol) text.remove_suffix(4);
        const Expected<rules::PortRange> ports = rules::parse_ports(text);
        const Expected<rules::Destination> place = rules::parse_destination(text);
        if (ports) {
            rule.when.port.push_back(*ports);
        } else if (place && std::holds_alternative<rules::Cidr>(place->host)) {
            rule.when.address.push_back(std::get<rules::Cidr>(place->host));
            if (place->port) rule.when.port.push_back(*place->port);
        } else {
            const bool numbers = text.find_first_not_of("0123456789-") == std::string_view::npos;
            throw Failure(what + ": " + (place && !numbers ? "a name cannot be bound" : ports.error().text) +
                          "; expected [ADDRESS:]PORT[/udp], such as 8080, 8000-8999 or 127.0.0.1:8080, or "
                          "unix:PATH or @NAME");
        }
        set_protocol(rule.when, protocol);
        all.push_back(std::move(rule));
    }
}

/// --gpu: the nodes of all other GPUs are closed, also of those that appear during the run. The profile `gpu`
/// opens the rest. A denial leaves no way around it, whatever else the rules allow.
void add_gpu(std::vector<rules::Rule>& all, const Arguments& arguments) {
    if (!arguments.has("gpu")) return;
    rules::Rule rule =
        option_rule("gpu", 0, rules::Action::deny, rules::write_operations | OperationSet{Operation::read});
    for (const std::string& pattern : gpu_patterns())
        rule.when.path.push_back(*rules::Glob::compile(pattern, rules::GlobKind::path));
    rule.except.emplace();
    for (const char* const directory : {"/dev/dri", "/dev/dri/by-path", "/dev/nvidia-caps"})
        rule.except->path.push_back(rules::Glob::literal(directory));
    for (const std::string& which : arguments.values("gpu")) {
        const auto nodes = nodes_of_gpu(which);
        if (!nodes) {
            std::string known;
            for (const std::string& node : gpu_nodes()) known += (known.empty() ? "" : ", ") + node;
            throw Failure(arguments.origin("gpu") + " " + which +
                          ": no such GPU; expected its number or PCI address, and " +
                          (known.empty() ? "there is no GPU's node in /dev" : "the nodes here are " + known));
        }
        for (const std::string& node : *nodes) rule.except->path.push_back(rules::Glob::literal(node));
    }
    all.push_back(std::move(rule));
}

/// Whether a path of -r is a file of rules: somebody who means -R would take its denials for granted.
bool is_rule_file(const std::string& path) {
    constexpr std::size_t max_size = 1 << 20;
    if (!path.ends_with(".json")) return false;
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    const Result<std::string> text = read_whole(file.get(), max_size);
    const auto has = [&](std::string_view word) { return text && text->find(word) != std::string::npos; };
    return has("\"version\"") && has("\"rules\"") && (has("\"allow\"") || has("\"ask\"") || has("\"deny\""));
}

/// The advice for a name that looks like a pattern; "" if it does not.
std::string meant_pattern(const std::string& path) {
    if (path.find_first_of("*?[") == std::string::npos) return "";
    const std::size_t name = path.rfind('/') + 1;  // 0 where there is no slash
    if (path.substr(0, name).find_first_of("*?[") != std::string::npos)
        return "; it is no pattern: patterns of directories are for rules (-R)";
    if (path.substr(name) == "**") return "; it is no pattern: a directory means all beneath it";
    return "; it is no pattern: that is '" + std::string(pattern_prefix) + path + "'";
}

}  // namespace

void say_doubtful_paths(const Arguments& arguments, const std::string& home) {
    for (const std::string_view option : {"read", "execute", "write", "deny"})
        for (const std::string& path : arguments.values(option)) {
            struct stat status {};
            if (path.starts_with(pattern_prefix) || path.starts_with(connect_prefix) ||
                ::stat(absolute(path, home).c_str(), &status) == 0 || errno != ENOENT)
                continue;
            // A name to write or to deny may come later.
            const std::string meant = meant_pattern(path);
            if (option == "read" || option == "execute" || !meant.empty())
                say(arguments.origin(option) + " " + path + ": nothing has this name yet" + meant);
        }
    for (const std::string& path : arguments.values("read"))
        if (is_rule_file(absolute(path, home)))
            say(arguments.origin("read") + " " + path + " lets the command read it; -R " + path +
                " makes its rules hold");
}

void add_option_rules(RuleChoice& choice, const Arguments& arguments, const rules::LoadContext& context) {
    std::vector<rules::Rule>& made = choice.sources.option_rules;
    const Paths of{context, choice.links, choice.linked};
    if (!context.user_home.empty()) {
        made.push_back(option_rule("home", 0, rules::Action::allow, read_and_write));
        made.back().when.path.push_back(rules::Glob::beneath(context.home));
    }
    add_paths(made, arguments, "read", Operation::read, of);
    add_paths(made, arguments, "write", read_and_write, of);
    add_paths(made, arguments, "execute", {Operation::read, Operation::execute}, of);
    add_denials(made, arguments, of);
    add_gpu(made, arguments);
    add_connections(choice, arguments, of);
    add_binds(made, arguments, of);
}

}  // namespace callgate::cli
