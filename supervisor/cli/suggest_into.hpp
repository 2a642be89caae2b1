// `callgate audit suggest --into FILE` adds rules to a rule set that exists.
#pragma once

#include <iosfwd>
#include <string>

#include "supervisor/audit/verbs/suggest.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

/// Adds rules for what logs saw and the rule set in the file `name` does not allow yet. Everything in the
/// file stays as it is, comments too. Prints the difference. Returns the exit status; throws Failure if the
/// file is no rule set or cannot be written.
[[nodiscard]] int suggest_into(const std::string& name, audit::SuggestOptions options, const Places& places,
                               std::ostream& errors);

}  // namespace callgate::cli
