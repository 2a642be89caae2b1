// The run around a process, for the verbs that are used within one.
#pragma once

#include <cstddef>
#include <string>

namespace callgate::cli {

/// Whether the environment says that a run is around this process. The variable may be left over from one.
[[nodiscard]] bool says_it_is_in_run();

/// Throws Failure if there is no run: "WHAT is for programs within a run: ...". Agents start MCP servers
/// without most variables. So where the environment does not say it, the run is asked, and the variables are
/// set.
void require_run(const std::string& what);

/// The list of denials of the run around (docs/cli.md), its last `max` bytes from the beginning of a line; ""
/// if there is none.
[[nodiscard]] std::string list_of_denials(std::size_t max);

}  // namespace callgate::cli
