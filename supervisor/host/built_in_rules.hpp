// Rules that every run has: callgate's own files and sockets, what later runs trust, and this machine's name
// services.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "supervisor/host/host.hpp"

namespace callgate {

/// Makes the rules of invariant 9 for these directories and the rule files that were loaded. They deny reads,
/// writes and connects in the state, runtime and pending-rule directories, and writes to rule files and
/// binary. `own_files` (log, signing key, report) are closed by name; "" stands for none.
/// `fixed` are the work directory and the run's private one. The run may not remove or rename them: the next
/// run by the same name must find the same directory.
/// `denials` is the list that the run reads and does not write; "" stands for none.
/// `home` is the run's lasting home; "" stands for none. The others among places.homes are closed.
[[nodiscard]] std::vector<rules::Rule> built_in_rules(const Places& places,
                                                      const std::vector<std::string>& rule_files,
                                                      const std::vector<std::string>& own_files,
                                                      const std::vector<std::string>& fixed = {},
                                                      const std::string& denials = "",
                                                      const std::string& home = "");

/// Adds the rules about a list of denials: it is read, and not written.
void add_list_of_denials(std::vector<rules::Rule>& all, const std::string& file);

/// The run's list of denials (run/denials_file.hpp), beside its private directory.
[[nodiscard]] std::string denials_name(const std::string& private_directory);

/// Makes the rules that close the machine's own services for look-ups: nscd, systemd-resolved, Avahi, SSSD,
/// winbind and the system bus. A name that is asked there would leave the machine undecided. Programs see no
/// such service, and go on to the name servers.
///
/// `replaced` are files that the run gets in a form of its own. A rule allows every program to read them. It
/// names programs, so the kernel does not decide these reads alone.
[[nodiscard]] std::vector<rules::Rule> name_service_rules(const std::vector<std::string>& replaced);

/// The id of the rule about replaced files.
inline constexpr std::string_view name_files_rule = "callgate-name-files";

}  // namespace callgate
