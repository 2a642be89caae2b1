// The terminal of a run, which is never the person's.
#pragma once

#include <memory>
#include <string>

#include "supervisor/approval/terminal/terminal.hpp"
#include "supervisor/run/request.hpp"

namespace callgate::cli {

/// The person's terminal. The run gets another one, or none.
struct TerminalChoice {
    std::shared_ptr<approval::Terminal> terminal;  // null: the run gets none
    std::string closed_name;  // the run may not open it; "": there is none, or it is shared
};

/// The run never holds the person's terminal: a process that leaves its session is under no job control. It
/// could read what is typed for others, take the foreground or change modes, in the background too. It gets a
/// terminal of its own where a standard descriptor is the person's. Elsewhere it gives the controlling
/// terminal up, which `request` is told. Audit mode enforces nothing, and asks nobody. Throws Failure if the
/// command could answer its own questions.
[[nodiscard]] TerminalChoice choose_terminal(Request& request);

/// Throws Failure if --plain-output would filter nothing: the relay alone filters, so a terminal that it does
/// not relay gets every byte.
void check_plain_output(const Request& request, const TerminalChoice& choice);

}  // namespace callgate::cli
