// Tells what an execution makes of the agent's process, and of its children (decide/parties.hpp).
//
// The command's process becomes the agent by its first execution, if that is of the agent's own program. Its
// arguments and environment are then the user's. A script's interpreter may be found by env(1): what that
// executes next is the agent too. No file on the way may be one that the tools may write. Whatever else the
// process executes makes it a tool, and so does each execution that cannot be told.
//
// A child of the agent is a tool from its fork on. It still holds the agent's descriptors that lack
// close-on-exec. An execution with a descriptor on what only the agent may use is denied. The agent's own
// code makes these descriptors, and no tool can reach the child before its execution.
//
// Such a child also has the agent's environment. The variables that are the agent's alone are taken from what
// it executes, before the first instruction of that (watch.hpp).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "supervisor/calls/call.hpp"
#include "supervisor/calls/exec/needs.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/decide/parties.hpp"

namespace callgate::calls {

/// The stage of the caller's process after an execution of `files`: the file, then its interpreters.
[[nodiscard]] Parties::Stage stage_after(ExecCall& context, std::span<const Object* const> files);

/// Makes the caller's process a tool, if it is the command's.
void leave(ExecCall& context);

/// Whether the caller is the agent, or a child of it that has executed nothing yet. A tool that runs the same
/// program, such as an interpreter, has a memory of its own.
[[nodiscard]] bool runs_agent(ExecCall& context);

/// Why the caller, which runs the agent's program, may not execute a tool: a descriptor that it would keep.
/// Nothing: it keeps none.
[[nodiscard]] std::optional<std::string> agents_descriptor(ExecCall& context);

}  // namespace callgate::calls
