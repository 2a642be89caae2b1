// `callgate audit suggest`: a rule set that allows what logs saw and nothing more than it says.
//
// Everything that was not allowed becomes a rule, with how often it was seen as its reason; what a person
// should look at first (secrets, the home itself, dot directories, private addresses, what a deny rule
// decided) stands behind the rules as a comment. Logs are hostile: what they name is only ever proposed, in
// patterns whose wildcards are quoted, and texts in comments are made safe for a terminal.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "supervisor/audit/verbs/show.hpp"

namespace callgate::audit {

struct SuggestOptions {
    std::string state{};
    std::vector<std::string> logs{};  // as LogChoice::log; empty: the newest
    std::string home{};
    /// The rules that are there already, for a run with this work directory and private directory: what they
    /// allow is not proposed. Empty: nothing is there.
    std::function<std::shared_ptr<const rules::RuleSet>(const std::string& workdir, const std::string& tmp)>
        rules_for{};
    /// Ids that are taken: an id is put there only if this is not part of it as a JSON string.
    std::string taken{};
};

struct Suggested {
    std::vector<std::string> rules;  // each on one line, as it stands in a rule set
    std::string for_a_person;        // comment lines; "" none
    int status = 0;                  // as of `suggest`
};

/// The rules alone, for a rule set that is there. `status` 125: no such log.
[[nodiscard]] Suggested suggest_rules(std::ostream& errors, const SuggestOptions& options);

/// Prints the rule set. 0 good, 1 some lines were no records, 125 no such log.
[[nodiscard]] int suggest(std::ostream& out, std::ostream& errors, const SuggestOptions& options);

}  // namespace callgate::audit
