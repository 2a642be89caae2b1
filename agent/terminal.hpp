// The run's own terminal (--ask tty): the guardian leads its session, the command is its foreground group.
//
// A command would ignore Ctrl-Z if it led its own session or its group were an orphaned one. So the guardian
// leads: parent of the command, in the same session, in another group. The slave is made before the fork. Its
// master stays with the supervisor, which relays it to the person's terminal. These functions run between
// fork and execve: nothing allocates.
#pragma once

#include <sys/types.h>

#include <array>

#include "agent/person_modes.hpp"

namespace callgate::agent {

struct RunTerminal {
    int slave = -1;  // -1: none
    /// The standard descriptors that it replaces: those that are the person's terminal.
    std::array<bool, 3> replaces{};
    /// Whether the command is its foreground group from the start. In a pipe it is not, because other
    /// commands may read the person's keys. This one is then stopped by SIGTTIN or SIGTTOU when it wants the
    /// terminal, and gets it.
    bool foreground = true;
    /// The agent gives the controlling terminal up, if there is no slave. It stays in session and group, so
    /// the terminal's signals still reach it.
    bool leave = false;
    int person = -1;  // the person's terminal; the guardian keeps it for put_back. -1: none
    const PersonModes* modes = nullptr;
};

/// For the guardian, before it forks the agent: starts a session with this terminal. Returns 0 or errno.
[[nodiscard]] int lead_terminal(int slave);

/// For the agent, with SIGTTOU blocked: enters a group of its own, and replaces the standard descriptors; or
/// gives the controlling terminal up.
/// Returns 0 or errno.
[[nodiscard]] int take_terminal(const RunTerminal& terminal);

/// For the session leader, with SIGTTOU blocked: makes `group` the foreground group (tcsetpgrp(3)).
void give_terminal(int slave, pid_t group);

}  // namespace callgate::agent
