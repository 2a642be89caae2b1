// The rules of a run: loaded, planned, and settled with the host.
#pragma once

#include <string>

#include "supervisor/cli/run_setup.hpp"

namespace callgate::cli {

/// Loads and plans the rules for the files of `tree`.
[[nodiscard]] Compiled compile(const Arguments& arguments, const RequestedRun& requested,
                               TerminalChoice terminal, const rules::FileTree& tree);

/// The file that notes the run's denials for the command. The run around notes those of both in its own.
[[nodiscard]] std::string denials_file(const Request& request);

}  // namespace callgate::cli
