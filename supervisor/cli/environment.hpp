// The environment that the command gets. Pure: names and values in, "NAME=value" out.
//
// Variables that an untrusted program could use or send away are held back: credentials, and the addresses of
// the desktop's sockets. Proxies and certificates are passed, because nothing reaches the network without
// them.
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
    std::string home;                  // HOME, and XDG_* beneath it; "": as they are
    std::vector<std::string> options;  // --env: "NAME" or "NAME=value"
    std::string directory;             // PWD
    std::string run;                   // CALLGATE_RUN, beside CALLGATE=1
    std::string temporary_directory;   // TMPDIR
    std::string denials;               // CALLGATE_DENIALS
    /// ${workdir}, ${tmp}, ${home}, ${config} in the values that the rule set states.
    std::map<std::string, std::string> variables;
};

/// The final environment: the current variables in their order, then new ones. --env beats
/// CALLGATE_SETENV_NAME. That beats the rule set, which beats the current value. A variable that is passed by
/// name but not set is left out.
[[nodiscard]] std::vector<std::string> make_environment(const EnvironmentChoice& choice);

/// Names of the variables that were held back because they hold a credential, in their order.
[[nodiscard]] std::vector<std::string> held_back(const EnvironmentChoice& choice);

/// Names of the current variables beside `held_back` that `made`, the command's environment, does not have.
[[nodiscard]] std::vector<std::string> not_passed(const EnvironmentChoice& choice,
                                                  std::span<const std::string> made,
                                                  std::span<const std::string> held_back);

/// Names of the proxies in `made` whose URL holds a user and a password.
[[nodiscard]] std::vector<std::string> proxies_with_password(std::span<const std::string> made);

/// Makes one line about variables that the command does not get: the first credentials by name, or with `all`
/// each name. "" if there are none: other variables alone are said only with `all`.
[[nodiscard]] std::string withheld_line(std::span<const std::string> held_back,
                                        std::span<const std::string> not_passed, bool all);

/// Whether a variable is passed without being named. Of a package manager's settings, one whose URL holds a
/// password is not.
[[nodiscard]] bool passed_by_default(std::string_view name, std::string_view value);

/// Returns those of `names` that `made`, the command's environment, has.
[[nodiscard]] std::vector<std::string> set_of(std::span<const std::string> names,
                                              std::span<const std::string> made);

/// Names of --env without a value that `made`, the command's environment, does not have, in their order.
[[nodiscard]] std::vector<std::string> not_set(const EnvironmentChoice& choice,
                                               std::span<const std::string> made);

/// Whether --keep-env holds it back.
[[nodiscard]] bool holds_credential(std::string_view name, std::string_view value);

/// The paths at which execvpe(3) looks for the command. A name with a slash is its own path. Any other name
/// is tried in each directory of PATH, which the given environment has; without one it is "/bin:/usr/bin".
[[nodiscard]] std::vector<std::string> executable_candidates(const std::string& command,
                                                             std::span<const std::string> environment);

}  // namespace callgate::cli
