// A `callgate run` of its own for one job, with the pipes to it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/process/spawn.hpp"

namespace callgate::jobs {

class Zygote;

/// The child, which the owner reaps, and our ends; close-on-exec.
struct RunProcess {
    Child child;
    UniqueFd input;  // none: its stdin is /dev/null
    UniqueFd output;
    UniqueFd error;  // none: it goes where output goes
    UniqueFd report;
    UniqueFd news;  // of one that waited: what it says of its end (late_words.hpp); else none
    /// Of one that a zygote forked: whose private directory it has. Held until the run is over.
    std::shared_ptr<Zygote> zygote;
};

/// What a run is connected to.
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
                                                              const SignalState& signals);

/// The same of a zygote behind `socket`: its child is not known yet. Nothing where there are too few
/// descriptors, or nobody reads there.
[[nodiscard]] std::optional<RunProcess> ask_for_run(int socket, const Connections& connections);

/// The words of callgate once more.
[[nodiscard]] std::vector<std::string> own_words(std::string_view verb,
                                                 const std::vector<std::string>& words);

}  // namespace callgate::jobs
