// The verdict of a rule set about a request, and its reasons, for `callgate explain`.
//
// The verdict is the evaluator's and the tier is the plan's, as in a run. The rest names the other rules
// about the object, and what would have to change. Objects and programs may be bytes that a target chose
// (from a log), so the texts made here are safe for a terminal.
#pragma once

#include <string>
#include <vector>

#include "rules/match/near_miss.hpp"
#include "rules/model/request.hpp"
#include "supervisor/cli/rule_options.hpp"

namespace callgate::cli {

/// A request with the bytes that it refers to. It must not be moved once `object` is set.
struct Question {
    rules::OperationSet operations;
    std::string name;               // the path of a file, or the name of a unix socket
    std::string shown;              // the object as text
    std::string note;               // what a name stood for
    std::vector<std::string> host;  // the name of an endpoint that was given by name
    std::string program;
    std::vector<std::string> arguments;
    bool arguments_known = false;
    rules::Object object;
    rules::Party party = rules::Party::tools;

    [[nodiscard]] rules::Request request() const {
        return {.operations = operations,
                .object = object,
                .program = program,
                .arguments = arguments,
                .party = party};
    }
};

/// A rule that matches and does not name the verdict.
struct Loser {
    const rules::Rule* rule = nullptr;
    std::string why;
};

struct Answer {
    rules::Verdict verdict;
    std::optional<rules::Verdict> other_party;  // where the rules know parties: that of the other one
    std::vector<std::string> agents_own;  // of an execution: variables that it does not get from the agent
    bool kernel = false;
    std::string tier;     // why it is decided there
    std::string look_up;  // what happens when the object's name is looked up; "" if it has none
    std::vector<Loser> lost;
    std::vector<rules::NearMiss> near;
    std::string hint;    // the options of callgate run that would allow it, or ""
    std::string change;  // what would have to change for another verdict
};

/// The answer refers to the rules of `compiled`.
[[nodiscard]] Answer answer_question(const Question& question, const CompiledRules& compiled);

[[nodiscard]] std::string as_text(const Question& question, const Answer& answer);
/// As a JSON object, without a newline.
[[nodiscard]] std::string as_json(const Question& question, const Answer& answer);

/// The verdict's word, in colour if stdout is a terminal.
[[nodiscard]] std::string coloured(rules::Action action);

/// `callgate explain --from-log SEQ [LOG]`: explains what is on record under the rules that are given.
[[nodiscard]] int explain_record(const Arguments& arguments);

}  // namespace callgate::cli
