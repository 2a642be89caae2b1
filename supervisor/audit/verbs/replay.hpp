// `callgate audit replay`: what another rule set would have said to the requests that a log holds.
//
// The same evaluator, on everything that it used then. Where that is not on record (an argument that was
// redacted or not asked for, what a move would have freed), the answer is "undecidable", never "the same".
// Where they ask, a call's answer on record stands, and is looked at itself: whether it was given, to this
// call, and by a grant that covers it. What failed and what callgate keeps for itself is no matter of the
// rules. Logs are hostile; what is no record is an error with its line number.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.hpp"
#include "rules/load/load_snapshot.hpp"
#include "rules/match/rule_set.hpp"
#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/audit/write/record.hpp"

namespace callgate::audit {

/// A decision's request as it was judged, or a record about a question; owns its bytes.
struct RecordedRequest {
    std::string call, was, decided_by, rule, reason;
    rules::OperationSet first, second;
    std::string object, second_object, program;
    bool has_second = false, unlinked = false;
    std::optional<rules::Endpoint> endpoint;
    std::optional<rules::UnixType> unix_type;
    std::vector<std::string> arguments;
    bool arguments_known = false;  // all of them, none redacted
    std::uint64_t sequence = 0, of_sequence = 0;
    std::optional<FileIdentity> identity;
    std::string entity;  // its caller, "4312@88123"
    // Of what was asked about; 0 and "" where nothing was:
    std::uint64_t question = 0, grant = 0;
    std::string key, operation, answer, scope;
    std::string interpreter_of;  // the file whose execution this is a part of
    // Of run.start:
    bool starts_run = false;
    std::string workdir, temporary_directory, home, config, rules_sha256;
    rules::LoadSnapshot surroundings;
};
/// Fails if the line is no record. Records that are no decisions have no `was`.
[[nodiscard]] Expected<RecordedRequest> parse_request(std::string_view line);

/// Whether somebody's answer decided: of a person, of a program, of nobody in time, or by a grant.
[[nodiscard]] bool answered(const RecordedRequest& request);

/// Follows the questions, answers and grants of a log, and holds each answered call against them.
class AnswerCheck {
public:
    virtual ~AnswerCheck() = default;
    enum class Finding : std::uint8_t { fits, undecidable, contradicts };
    struct Found {
        Finding finding = Finding::fits;
        std::string why{};  // where it contradicts; not yet safe for a terminal
    };
    /// The next record, of whatever kind.
    virtual Found look_at(const RecordedRequest& record) = 0;
};

/// What its first object is, as a view into the request.
[[nodiscard]] rules::Object object_of(const RecordedRequest& request);

struct ReplayRules {
    std::shared_ptr<const rules::RuleSet> rules;
    std::string sha256;
};

struct ReplayOptions {
    LogChoice log{};
    bool json = false;
    AnswerCheck& answers;
    /// The other rules, for a run that began like this.
    std::function<ReplayRules(const RecordedRequest& start)> rules_for;
};

/// 0 nothing would change, 1 something would, or the log contradicts itself (or lines were no records).
[[nodiscard]] int replay(std::ostream& out, std::ostream& errors, const ReplayOptions& options);

}  // namespace callgate::audit
