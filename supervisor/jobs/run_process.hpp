// Starts a `callgate run` for one job, with the pipes to it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.hpp"
#include "base/process/spawn.hpp"

namespace callgate::jobs {

/// The child, which the owner reaps, and the server's ends of its pipes, which are close-on-exec.
struct RunProcess {
    Child child;
    UniqueFd input;  // none: its stdin is /dev/null
    UniqueFd output;
    UniqueFd error;  // none: it goes where output goes
    UniqueFd report;
    UniqueFd progress;  // from a run that waited: how far it is (job_message.hpp); else none
};

/// The pipes and files that a run is connected to.
struct Connections {
    bool input = false;         // a pipe
    bool merged = false;        // stderr goes where stdout goes
    std::string_view script{};  // to be read from `script_descriptor`; "" none
    std::string_view rules{};   // from `rules_descriptor`
};

/// `words` follow the verb. The same holds for the caller as with `spawn`.
[[nodiscard]] Expected<RunProcess> start_run(std::string_view verb, const std::vector<std::string>& words,
                                             const std::vector<std::string>& environment,
                                             const Connections& connections, const SignalState& signals);

/// Makes the pipes, and passes the run's ends to `send`: for each the number here and the number in the run.
/// The child is not set. Returns nothing if there are too few descriptors, or `send` returns false.
[[nodiscard]] std::optional<RunProcess> connect_run(
    const Connections& connections, const std::function<bool(std::span<const std::pair<int, int>>)>& send);

/// The arguments of another callgate process.
[[nodiscard]] std::vector<std::string> own_words(std::string_view verb,
                                                 const std::vector<std::string>& words);

}  // namespace callgate::jobs
