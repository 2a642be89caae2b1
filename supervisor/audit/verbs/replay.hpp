// `callgate audit replay`: the verdicts of another rule set on the requests in a log.
//
// The same evaluator judges the same input. Some input is not on record: arguments that were redacted or not
// read, and the objects that a move would have freed. Then the result is "undecidable", never "the same".
//
// If the rules ask, the recorded answer to the call stands. Replay checks that the answer was given, that it
// was given to this call, and that its grant covers the call. The rules do not decide failures and callgate's
// own files. Logs are hostile; a malformed line is an error with its number.
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

/// The request of a decision as it was judged, or a record about a question. Owns its bytes.
struct RecordedRequest {
    std::string call, was, decided_by, rule, reason;
    rules::OperationSet first, second;
    std::string object, second_object, program;
    bool has_second = false, unlinked = false;
    bool look_up = false;          // `object` is a host name
    bool arguments_known = false;  // all of them, none redacted
    bool by_nested = false;        // rules decided that are not this run's
    std::optional<rules::UnixType> unix_type;
    std::optional<rules::Party> party;
    std::optional<rules::Endpoint> endpoint;
    std::vector<std::string> names;  // of the endpoint
    std::vector<std::string> arguments;
    std::uint64_t sequence = 0, of_sequence = 0;
    std::uint64_t count = 1;  // equal requests
    std::optional<FileIdentity> identity;
    std::string entity;  // its caller, "4312@88123"
    // The question; 0 and "" if there was none:
    std::uint64_t question = 0, grant = 0;
    std::string key, operation, answer, scope;
    std::string interpreter_of;  // the file whose execution this belongs to
    // The record run.start has these:
    bool starts_run = false;
    std::string workdir, temporary_directory, home, user_home, config, rules_sha256;
    rules::LoadSnapshot snapshot;
};
/// Fails if the line is malformed. `was` is empty if the record is not a decision.
[[nodiscard]] Expected<RecordedRequest> parse_request(std::string_view line);

/// Whether an answer decided: by a person, by a program, by a grant, or by the timeout.
[[nodiscard]] bool answered(const RecordedRequest& request);

/// Follows the questions, answers and grants of a log, and holds each answered call against them.
class AnswerCheck {
public:
    virtual ~AnswerCheck() = default;
    enum class Finding : std::uint8_t { fits, undecidable, contradicts };
    struct Found {
        Finding finding = Finding::fits;
        std::string why{};  // of a contradiction; not yet safe for a terminal
    };
    /// Takes the next record, of any kind.
    virtual Found look_at(const RecordedRequest& record) = 0;
};

/// The first object of the request, as a view into it.
[[nodiscard]] rules::Object object_of(const RecordedRequest& request);

struct ReplayRules {
    std::shared_ptr<const rules::RuleSet> rules;
    std::string sha256;
};

struct ReplayOptions {
    LogChoice log{};
    bool json = false;
    AnswerCheck& answers;
    /// Returns the other rules for a run that began like this.
    std::function<ReplayRules(const RecordedRequest& start)> rules_for;
};

/// Returns 0 if nothing would change, 1 if something would, the log contradicts itself or a line is
/// malformed.
[[nodiscard]] int replay(std::ostream& out, std::ostream& errors, const ReplayOptions& options);

}  // namespace callgate::audit
