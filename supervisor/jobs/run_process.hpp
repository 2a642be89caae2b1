// A `callgate run` of its own for one job, with the pipes to it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "supervisor/spawn.hpp"

namespace callgate::jobs {

/// The child, which the owner reaps, and our ends; close-on-exec.
struct RunProcess {
    Child child;
    UniqueFd input;  // none: its stdin is /dev/null
    UniqueFd output;
    UniqueFd error;  // none: it goes where output goes
    UniqueFd report;
    UniqueFd news;  // of one that waited: what it says of its end (late_words.hpp); else none
};

/// What the run is connected to.
struct Connections {
    bool input = false;             // a pipe
    bool merged = false;            // stderr goes where stdout goes
    std::string_view script{};      // to be read from `script_descriptor`; "" none
    std::string_view rules{};       // from `rules_descriptor`
    const UniqueFd* job = nullptr;  // its `job_descriptor`
    bool operator==(const Connections&) const = default;
};

/// `words` follow the program's name. Index 1: why not, for a person. As spawn.
[[nodiscard]] std::variant<RunProcess, std::string> start_run(std::string_view verb,
                                                              const std::vector<std::string>& words,
                                                              const std::vector<std::string>& environment,
                                                              const Connections& connections,
                                                              const agent::SignalState& signals);

}  // namespace callgate::jobs
