// `callgate audit prune`: removes the logs of runs that are long over.
//
// It removes only files in the state directory that are named as logs. It never removes a log that a run
// still writes to, because the run holds the file's lock. Other users cannot write to that directory.
#pragma once

#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>

namespace callgate::audit {

struct PruneOptions {
    std::string state{};
    std::chrono::seconds keep{};
};

/// Parses "30d", and the forms that limits accept: "12h", "90s".
[[nodiscard]] std::optional<std::chrono::seconds> parse_age(const std::string& text);

/// Returns 0, or 1 if something could not be removed.
[[nodiscard]] int prune(std::ostream& out, std::ostream& errors, const PruneOptions& options);

}  // namespace callgate::audit
