// The options of `run` that do not concern rules. A wrong value is a Failure that names the option, the value
// and the expected form.
#pragma once

#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/linked_paths.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/run/request.hpp"

namespace callgate::cli {

/// Reads "fd:N" or a path. /dev/stdout, /dev/stderr and /dev/fd/N are descriptors too. A path becomes
/// absolute; a link that is its last component stays (own_name). Throws Failure if N is no open descriptor,
/// if the path ends in a directory's name, or for a path with `descriptor_only`. The links on the way are
/// added to `linked`.
enum class TargetKind : std::uint8_t { any, descriptor_only };
[[nodiscard]] OutputTarget read_output_target(const Arguments& arguments, const std::string& home,
                                              std::string_view option, TargetKind kind, LinkedPaths& linked);

/// --mode.
[[nodiscard]] Mode read_mode(const Arguments& arguments);

/// Fills the part of a request that options alone give: limits, who answers, background, audit, report,
/// status, descriptors, priorities, output. --disk needs request.workdir. The links that its paths lead
/// through are added to `linked`. Throws Failure.
void read_run_options(const Arguments& arguments, const Places& places, Request& request,
                      LinkedPaths& linked);

/// --require: throws Failure if a named feature is unknown or missing.
void require_features(const Arguments& arguments);

}  // namespace callgate::cli
