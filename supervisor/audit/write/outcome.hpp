// How a run ended and in which mode it ran, with the words that logs and reports use.
//
// The table in outcome.cpp is the only place that holds these words. docs/cli.md lists them for users.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace callgate {

/// An audited run denies nothing: it records what the rules would have denied.
enum class Mode : std::uint8_t { enforce, audit };
/// "enforce", "audit"
[[nodiscard]] std::string_view name(Mode mode);

enum class Outcome : std::uint8_t {
    exited,
    signaled,
    exec_failed,
    memory,
    processes,
    disk,
    cpu,
    timeout,
    idle_timeout,
    log_full,
    killed_by_rule,
    cancelled,
    setup_error,
    supervisor_lost,
};
/// "exited", "killed_by_rule"
[[nodiscard]] std::string_view name(Outcome outcome);
/// The exit status of callgate, if the outcome alone decides it: 124 for `timeout`. Otherwise it depends on
/// the command or on a signal.
[[nodiscard]] std::optional<int> exit_status(Outcome outcome);

}  // namespace callgate
