// `callgate audit prune`: removes the logs of runs that are long over.
//
// Only in the state directory, only what is named as a log there, and never one that a run still writes to
// (it holds the file's lock). Others cannot write to that directory.
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

/// "30d", and what limits accept: "12h", "90s".
[[nodiscard]] std::optional<std::chrono::seconds> parse_age(const std::string& text);

/// 0, or 1 where something could not be removed.
[[nodiscard]] int prune(std::ostream& out, std::ostream& errors, const PruneOptions& options);

}  // namespace callgate::audit
