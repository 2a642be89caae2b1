// The run's own terminal (--ask tty): the guardian leads its session, the command is its foreground group.
//
// A command that led its own session, or whose group were an orphaned one, would ignore Ctrl-Z; so the
// guardian, parent of the command in the same session and in another group, leads. The slave is made before
// the fork; its master stays with the supervisor, which relays it to the person's terminal. Both functions
// run between fork and execve: nothing allocates.
#pragma once

#include <array>

namespace callgate::agent {

struct RunTerminal {
    int slave = -1;  // -1: none
    /// Which of the standard descriptors it replaces: those that are terminals.
    std::array<bool, 3> replaces{};
};

/// The guardian, before it forks the agent: a session of its own with this terminal. 0 or errno.
[[nodiscard]] int lead_terminal(int slave);

/// The agent, with SIGTTOU blocked: a group of its own in the foreground, and the standard descriptors. 0 or
/// errno.
[[nodiscard]] int take_terminal(const RunTerminal& terminal);

}  // namespace callgate::agent
