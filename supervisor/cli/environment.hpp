// Which environment the command gets. Pure: names and values in, "NAME=value" out.
//
// What is held back is what a stranger's program could use or send away: credentials, and the addresses of
// the desktop's sockets.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/limits.hpp"

namespace callgate::cli {

struct EnvironmentChoice {
    std::span<const std::string> current;  // callgate's own, "NAME=value"
    rules::Environment rules;
    bool keep = false;                 // --keep-env
    bool private_home = false;         // --private-home: HOME and XDG_* are the temporary directory
    std::vector<std::string> options;  // --env: "NAME" or "NAME=value"
    std::string directory;             // PWD
    std::string temporary_directory;   // TMPDIR
    /// ${workdir}, ${tmp}, ${home}, ${config} in the values that the rule set states.
    std::map<std::string, std::string> variables;
};

/// Final environment, in the order of the current one, then what is new. --env beats CALLGATE_SETENV_NAME,
/// that the rule set, that what was there. A variable that is passed by name and not set is left out.
[[nodiscard]] std::vector<std::string> make_environment(const EnvironmentChoice& choice);

/// Names of the variables that were held back because they hold a credential, in their order.
[[nodiscard]] std::vector<std::string> held_back(const EnvironmentChoice& choice);

/// Whether a variable is passed without being named.
[[nodiscard]] bool passed_by_default(std::string_view name);

/// Whether --keep-env holds it back.
[[nodiscard]] bool holds_credential(std::string_view name, std::string_view value);

/// The command as execvpe(3) looks for it: a name with a slash is itself, any other is tried in each
/// directory of PATH (of the environment that it gets; "/bin:/usr/bin" where there is none).
[[nodiscard]] std::vector<std::string> executable_candidates(const std::string& command,
                                                             std::span<const std::string> environment);

}  // namespace callgate::cli
