// The options of `run` that are not about rules, understood: each wrong value names option, value and what is
// expected.
#pragma once

#include "supervisor/cli/arguments.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/run/run.hpp"

namespace callgate::cli {

/// "fd:N" or a path. Throws Failure where N is no open descriptor, or where a path is given and
/// `descriptor_only`.
enum class TargetKind : std::uint8_t { any, descriptor_only };
[[nodiscard]] OutputTarget read_output_target(const Arguments& arguments, std::string_view option,
                                              TargetKind kind);

/// Fills what stands in options alone: limits, background, grace, audit, report, status, descriptors,
/// priorities, output. Throws Failure.
void read_run_options(const Arguments& arguments, const Places& places, SessionConfig& config);

/// The part of it that is about limits, --grace among them.
void read_limits(const Arguments& arguments, SessionConfig& config);

/// --require: throws Failure where a named feature is unknown or missing.
void require_features(const Arguments& arguments);

}  // namespace callgate::cli
