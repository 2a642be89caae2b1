// `callgate audit replay`: what another rule set would have said to the requests that a log holds.
//
// The same evaluator, on everything that it used then. Where that is not on record (an argument that was
// redacted or not asked for, what a move would have freed), the answer is "undecidable", never "the same".
// What failed, what a person decided and what callgate keeps for itself is no matter of the rules. Logs are
// hostile; what is no record is an error with its line number.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rules/rule_set.hpp"
#include "rules/surroundings.hpp"
#include "supervisor/audit/show.hpp"

namespace callgate::audit {

/// A decision's request as it was judged; owns its bytes.
struct RecordedRequest {
    std::string call, was, decided_by, rule, reason;
    rules::OperationSet first, second;
    std::string object, second_object, program;
    bool has_second = false, nameless = false;
    std::optional<rules::Endpoint> endpoint;
    std::optional<rules::UnixType> unix_type;
    std::vector<std::string> arguments;
    bool arguments_known = false;  // all of them, none redacted
    std::uint64_t of_sequence = 0;
    // Of run.start:
    bool starts_run = false;
    std::string workdir, temporary_directory, home, config, rules_sha256;
    rules::Surroundings surroundings;
};
/// Nothing, and why in `problem`, where the line is no record. Other records have no `was`.
[[nodiscard]] std::optional<RecordedRequest> parse_request(std::string_view line, std::string& problem);

/// What its first object is, as a view into the request.
[[nodiscard]] rules::Object object_of(const RecordedRequest& request);

struct ReplayRules {
    std::shared_ptr<const rules::RuleSet> rules;
    std::string sha256;
};

struct ReplayOptions {
    LogChoice log{};
    bool json = false;
    /// The other rules, for a run that began like this.
    std::function<ReplayRules(const RecordedRequest& start)> rules_for;
};

/// 0 nothing would change, 1 something would (or lines were no records).
[[nodiscard]] int replay(std::ostream& out, std::ostream& errors, const ReplayOptions& options);

}  // namespace callgate::audit
