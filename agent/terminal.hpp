// The run's own terminal (--ask tty): the guardian leads its session, the command is its foreground group.
//
// A command that led its own session, or whose group were an orphaned one, would ignore Ctrl-Z; so the
// guardian, parent of the command in the same session and in another group, leads. The slave is made before
// the fork; its master stays with the supervisor, which relays it to the person's terminal. Both functions
// run between fork and execve: nothing allocates.
#pragma once

#include <sys/types.h>

#include <array>

namespace callgate::agent {

struct RunTerminal {
    int slave = -1;  // -1: none
    /// Which of the standard descriptors it replaces: those that are the person's terminal.
    std::array<bool, 3> replaces{};
    /// Whether the command is its foreground group from the start. In a pipe it is not: other commands of it
    /// may read the person's keys, so this one gets them only when it wants them, and is stopped by SIGTTIN
    /// or SIGTTOU until then.
    bool foreground = true;
};

/// The guardian, before it forks the agent: a session of its own with this terminal. 0 or errno.
[[nodiscard]] int lead_terminal(int slave);

/// The agent, with SIGTTOU blocked: a group of its own, and the standard descriptors. 0 or errno.
[[nodiscard]] int take_terminal(const RunTerminal& terminal);

/// The leader, with SIGTTOU blocked: makes `group` the foreground group (tcsetpgrp(3)).
void give_terminal(int slave, pid_t group);

}  // namespace callgate::agent
