// Registries of package managers, as the user's own configuration names them: the hosts of `-p NAME+net`.
//
// Variables and files of the user and of the system count. Files of the work directory do not: a project that
// nobody trusts could name any host there. Nothing here is chosen by the target. Pure, but for the functions
// that it is given.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace callgate::cli {

/// The sources of a configuration.
struct RegistrySources {
    std::string home;
    /// Returns a file's content; nothing if it does not exist.
    std::function<std::optional<std::string>(const std::string& path)> file;
    /// Returns a variable's value; nothing if it is not set.
    std::function<std::optional<std::string>(const std::string& name)> variable;
    /// Returns the names in a directory, in any order.
    std::function<std::vector<std::string>(const std::string& path)> names;
};

struct RegistryHost {
    std::string host;  // a name, or an address in the notation of rules
    int port = 443;
    bool operator==(const RegistryHost&) const = default;
};

struct Registries {
    std::vector<RegistryHost> hosts;
    /// They replace the tool's public default; else they come in addition.
    bool replace = false;
    /// Variables that name registries, without user and password, for the environment of the run.
    std::vector<std::pair<std::string, std::string>> variables;
};

/// The registries that are configured for a profile: "node", "python", "rust", "go", "java", "ruby", "php",
/// "git", "apt".
[[nodiscard]] Registries configured_registries(std::string_view profile, const RegistrySources& sources);

/// The rule set of a shipped `NAME+net` profile with these registries, as JSON text.
[[nodiscard]] std::string with_registries(std::string_view profile_json, const Registries& registries);

/// The host and port of a URL; nothing if it names no host of the network.
[[nodiscard]] std::optional<RegistryHost> host_of_url(std::string_view url);

}  // namespace callgate::cli
