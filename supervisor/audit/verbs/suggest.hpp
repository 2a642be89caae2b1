// `callgate audit suggest`: a rule set that allows the calls in logs, and nothing that it does not state.
//
// Every call that was not allowed becomes part of a rule, whose reason says how often it was seen. Some
// objects need a person's look first, so they are only comments behind the rules. These are objects that a
// deny rule decided, and those that the profile `base` denies, whatever rules the run had. So what opens a
// secret, or lets code in that runs later, is never proposed. The home itself, dot directories, names that
// say credential, and private addresses are comments too.
//
// Logs are hostile. So names in them are only proposed, in patterns whose wildcards are quoted. Texts in
// comments are made safe for a terminal.
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
    std::string account_home{};  // where HOME is another directory; else ""
    /// Returns the existing rules for a run with this work directory and private directory. Calls that they
    /// allow are not proposed. Empty: there are no rules yet.
    std::function<std::shared_ptr<const rules::RuleSet>(const std::string& workdir, const std::string& tmp)>
        rules_for{};
    /// Returns the rules whose denials a person looks at, for such a run. Empty: there are none.
    std::function<std::shared_ptr<const rules::RuleSet>(const std::string& workdir, const std::string& tmp)>
        guard_for{};
    /// A text that holds the taken ids. A new id never stands in it as a JSON string.
    std::string taken{};
};

struct Suggested {
    std::vector<std::string> rules;  // each on one line, as it stands in a rule set
    std::string for_a_person;        // comment lines; "" none
    std::string rule_set;            // the whole text of a new one: these rules, and these comments
    int status = 0;                  // 0 good, 1 if some lines were malformed, 125 if there is no such log
};

[[nodiscard]] Suggested suggest(std::ostream& errors, const SuggestOptions& options);

}  // namespace callgate::audit
