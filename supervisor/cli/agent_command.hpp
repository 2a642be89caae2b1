// The coding agent among commands: which file it is, and under which profile it runs.
//
// An agent is known by the file that really runs, and never by its name alone.
#pragma once

#include <string>
#include <vector>

#include "rules/load/loader.hpp"
#include "supervisor/run/request.hpp"

namespace callgate::cli {

/// The resolved file that would run of `candidates`, seen from `directory`; "" if there is none.
[[nodiscard]] std::string program_of(const std::vector<std::string>& candidates,
                                     const std::string& directory);

/// The agent's program that runs where the command is `path`; "" if there is none. A launcher's program lies
/// in a node_modules of a directory above it, as node looks for packages. Somebody may have put another
/// there. It must match the agent's own patterns, and find_agent refuses one that tools may write.
[[nodiscard]] std::string agent_program(const rules::Agent& agent, const std::string& path);

/// The name of a shipped profile for an agent that is called like this; "" if there is none.
[[nodiscard]] std::string profile_of_agent(const std::string& command);

/// Makes the agent the command, if the command is the agent that the rules are for. It is run itself in place
/// of a launcher, because the launcher's child would be a tool. Throws Failure if tools may write it.
void find_agent(const Request& request, const Compiled& compiled, Command& command);

}  // namespace callgate::cli
