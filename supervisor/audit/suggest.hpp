// `callgate audit suggest`: a rule set that allows what logs saw and nothing more than it says.
//
// Everything that was not allowed becomes a rule, with how often it was seen as its reason; what a person
// should look at first (secrets, the home itself, dot directories, private addresses, what a deny rule
// decided) stands behind the rules as a comment. Logs are hostile: what they name is only ever proposed, in
// patterns whose wildcards are quoted, and texts in comments are made safe for a terminal.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "supervisor/audit/show.hpp"

namespace callgate::audit {

struct SuggestOptions {
    std::string state{};
    std::vector<std::string> logs{};  // as LogChoice::log; empty: the newest
    std::string home{};
};

/// Prints the rule set. 0 good, 1 some lines were no records, 125 no such log.
[[nodiscard]] int suggest(std::ostream& out, std::ostream& errors, const SuggestOptions& options);

}  // namespace callgate::audit
