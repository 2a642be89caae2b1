#include "supervisor/cli/environment.hpp"

#include <algorithm>
#include <array>

#include "base/plural.hpp"
#include "base/words.hpp"
#include "supervisor/jobs/command_line.hpp"

namespace callgate::cli {

namespace {

constexpr std::string_view passed_names =
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM TZ COLORTERM PWD NO_COLOR COLUMNS LINES "
    "EDITOR VISUAL PAGER VIRTUAL_ENV SHLVL CLICOLOR CI FORCE_COLOR CLICOLOR_FORCE "
    "TERM_PROGRAM MANPATH SOURCE_DATE_EPOCH LESS LS_COLORS HOSTNAME TERMINFO TERMINFO_DIRS "
    "XDG_DATA_DIRS XDG_CONFIG_DIRS";

constexpr std::array<std::string_view, 9> credential_parts = {
    "KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE", "CALLGATE_"};

/// Addresses of sockets through which a program can control the host.
constexpr std::array<std::string_view, 7> socket_names = {"GPG_AGENT_INFO",  "DBUS_SESSION_BUS_ADDRESS",
                                                          "DISPLAY",         "WAYLAND_DISPLAY",
                                                          "SESSION_MANAGER", "DOCKER_HOST",
                                                          "CONTAINER_HOST"};

std::string upper(std::string_view text) {
    std::string folded(text);
    for (char& one : folded)
        if (one >= 'a' && one <= 'z') one = static_cast<char>(one - 'a' + 'A');
    return folded;
}

/// Variables that name whom to trust in the network.
constexpr std::string_view certificate_names =
    "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE";
constexpr std::array<std::string_view, 3> settings_prefixes = {"PIP_", "GIT_SSL_", "CARGO_HTTP_"};

/// user:password@host, up to the first slash
bool has_password(std::string_view rest) {
    const std::string_view authority = rest.substr(0, rest.find('/'));
    const std::size_t at = authority.rfind('@');
    return at != std::string_view::npos && authority.substr(0, at).find(':') != std::string_view::npos;
}

/// A value that holds scheme://user:password@host; it can be a list.
bool is_url_with_password(std::string_view value) {
    for (std::size_t at = value.find("://"); at != std::string_view::npos; at = value.find("://", at + 3))
        if (has_password(value.substr(at + 3))) return true;
    return false;
}

bool is_proxy(std::string_view name) { return name.ends_with("_PROXY") || name.ends_with("_proxy"); }

/// curl and others take a proxy without a scheme, too.
bool is_proxy_with_password(std::string_view name, std::string_view value) {
    return is_proxy(name) &&
           (value.find("://") == std::string_view::npos ? has_password(value) : is_url_with_password(value));
}

std::string substitute(std::string_view value, const std::map<std::string, std::string>& variables) {
    std::string text;
    while (true) {
        const std::size_t begin = value.find("${");
        const std::size_t end = begin == std::string_view::npos ? begin : value.find('}', begin);
        if (end == std::string_view::npos) return text + std::string(value);
        const auto found = variables.find(std::string(value.substr(begin + 2, end - begin - 2)));
        text += value.substr(0, begin);
        text += found == variables.end() ? std::string(value.substr(begin, end + 1 - begin)) : found->second;
        value.remove_prefix(end + 1);
    }
}

bool names_it(const std::vector<std::string>& list, std::string_view name) {
    return std::any_of(list.begin(), list.end(), [name](const std::string& one) {
        return one.ends_with('*') ? name.starts_with(std::string_view(one).substr(0, one.size() - 1))
                                  : one == name;
    });
}

std::string_view name_of(std::string_view variable) { return variable.substr(0, variable.find('=')); }

void set(std::vector<std::string>& all, std::string_view name, const std::string& value) {
    const std::string text = std::string(name) + "=" + value;
    for (std::string& one : all) {
        if (name_of(one) != name) continue;
        one = text;
        return;
    }
    all.push_back(text);
}

/// The directories that programs look for beneath HOME stay where it is (XDG base directory specification).
void set_home(std::vector<std::string>& all, const std::string& home, const std::string& runtime) {
    set(all, "HOME", home);
    set(all, "XDG_CONFIG_HOME", home + "/.config");
    set(all, "XDG_DATA_HOME", home + "/.local/share");
    set(all, "XDG_STATE_HOME", home + "/.local/state");
    set(all, "XDG_CACHE_HOME", home + "/.cache");
    set(all, "XDG_RUNTIME_DIR", runtime);
}

bool is_named(const EnvironmentChoice& choice, std::string_view name) {
    return names_it(choice.rules.pass, name) ||
           std::find(choice.options.begin(), choice.options.end(), name) != choice.options.end();
}

std::string_view value_of(std::string_view variable) {
    return variable.substr(std::min(name_of(variable).size() + 1, variable.size()));
}

bool is_credential(std::string_view variable) {
    return holds_credential(name_of(variable), value_of(variable));
}

}  // namespace

bool passed_by_default(std::string_view name, std::string_view value) {
    const auto begins = [name](std::string_view prefix) { return name.starts_with(prefix); };
    return name.starts_with("LC_") || has_word(passed_names, name) || has_word(certificate_names, name) ||
           is_proxy(name) || (std::ranges::any_of(settings_prefixes, begins) && !is_url_with_password(value));
}

bool holds_credential(std::string_view name, std::string_view value) {
    const std::string folded = upper(name);
    const auto within = [&folded](std::string_view part) { return folded.find(part) != std::string::npos; };
    return std::any_of(credential_parts.begin(), credential_parts.end(), within) ||
           std::find(socket_names.begin(), socket_names.end(), folded) != socket_names.end() ||
           is_url_with_password(value);
}

std::vector<std::string> make_environment(const EnvironmentChoice& choice) {
    std::vector<std::string> all;
    for (const std::string& variable : choice.current) {
        const std::size_t equals = variable.find('=');
        if (equals == std::string::npos || equals == 0) continue;
        const std::string_view name = name_of(variable);
        if (is_named(choice, name) || passed_by_default(name, value_of(variable)) ||
            (choice.keep && !is_credential(variable)))
            all.push_back(variable);
    }
    set(all, "TMPDIR", choice.temporary_directory);
    set(all, "PWD", choice.directory);
    set(all, "CALLGATE", "1");
    set(all, "CALLGATE_RUN", choice.run);
    set(all, "CALLGATE_DENIALS", choice.denials);
    if (!choice.home.empty()) set_home(all, choice.home, choice.temporary_directory);
    for (const auto& [name, value] : choice.rules.set) set(all, name, substitute(value, choice.variables));
    for (const std::string& variable : choice.current)
        if (variable.starts_with(jobs::variable_prefix) && name_of(variable) != jobs::variable_prefix)
            set(all, name_of(variable).substr(jobs::variable_prefix.size()),
                variable.substr(variable.find('=') + 1));
    for (const std::string& option : choice.options) {
        const std::size_t equals = option.find('=');
        if (equals != std::string::npos) set(all, name_of(option), option.substr(equals + 1));
    }
    return all;
}

std::vector<std::string> held_back(const EnvironmentChoice& choice) {
    std::vector<std::string> names;
    for (const std::string& variable : choice.current) {
        const std::string_view name = name_of(variable);
        const bool passed = is_named(choice, name) || passed_by_default(name, value_of(variable)) ||
                            name.starts_with("CALLGATE_");
        if (!passed && is_credential(variable)) names.emplace_back(name);
    }
    return names;
}

std::vector<std::string> not_passed(const EnvironmentChoice& choice, std::span<const std::string> made,
                                    std::span<const std::string> held_back) {
    std::vector<std::string> names;
    for (const std::string& variable : choice.current) {
        const std::string_view name = name_of(variable);
        const auto same = [name](const std::string& one) { return name_of(one) == name; };
        if (!name.empty() && !name.starts_with("CALLGATE_") && std::ranges::none_of(made, same) &&
            std::ranges::find(held_back, name) == held_back.end())
            names.emplace_back(name);
    }
    return names;
}

std::string withheld_line(std::span<const std::string> held_back, std::span<const std::string> not_passed,
                          bool all) {
    constexpr std::size_t max_shown = 4;
    const std::size_t shown = all ? held_back.size() : std::min(held_back.size(), max_shown);
    const std::size_t hidden = held_back.size() - shown;
    if (held_back.empty() && (!all || not_passed.empty())) return "";
    std::string line = "not passed to the command: ";
    if (shown > 0) {
        line += joined(held_back.first(shown), ", ");
        line += hidden > 0 ? " and " + std::to_string(hidden) + " more" : "";
        line += held_back.size() == 1 ? " (looks like a credential)" : " (look like credentials)";
    }
    if (!not_passed.empty()) {
        line += shown > 0 ? ", and " : "";
        line += all ? joined(not_passed, ", ") : plural(not_passed.size(), "other variable");
    }
    return line + "; --env NAME passes one" +
           (all || (hidden == 0 && not_passed.empty()) ? "" : ", -v lists all");
}

std::vector<std::string> proxies_with_password(std::span<const std::string> made) {
    std::vector<std::string> names;
    for (const std::string& variable : made)
        if (is_proxy_with_password(name_of(variable), value_of(variable)))
            names.emplace_back(name_of(variable));
    return names;
}

std::vector<std::string> set_of(std::span<const std::string> names, std::span<const std::string> made) {
    std::vector<std::string> found;
    for (const std::string& name : names)
        if (std::ranges::any_of(made, [&name](const std::string& one) { return name_of(one) == name; }))
            found.push_back(name);
    return found;
}

std::vector<std::string> not_set(const EnvironmentChoice& choice, std::span<const std::string> made) {
    std::vector<std::string> names;
    for (const std::string& option : choice.options) {
        const auto sets = [&option](const std::string& one) { return name_of(one) == option; };
        if (option.find('=') == std::string::npos && std::ranges::none_of(made, sets))
            names.push_back(option);
    }
    return names;
}

std::vector<std::string> executable_candidates(const std::string& command,
                                               std::span<const std::string> environment) {
    if (command.find('/') != std::string::npos) return {command};
    std::string path = "/bin:/usr/bin";
    for (const std::string& variable : environment)
        if (variable.starts_with("PATH=")) path = variable.substr(5);
    std::vector<std::string> all;
    for (const std::string& directory : split(path, ':'))
        all.push_back(directory.empty() ? "./" + command : directory + "/" + command);
    return all;
}

}  // namespace callgate::cli
