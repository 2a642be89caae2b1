#include "supervisor/audit/replay.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "rules/address.hpp"
#include "rules/plan_audit.hpp"
#include "supervisor/audit/escape.hpp"
#include "supervisor/audit/lines.hpp"
#include "supervisor/audit/show_rows.hpp"
#include "supervisor/audit/table.hpp"

namespace callgate::audit {

namespace {

/// Beyond so many different changes, further ones are only counted.
constexpr std::size_t most_changes = 100'000;

struct Change {
    std::string rule, was, now, operation, object;
    auto operator<=>(const Change&) const = default;
};

struct Result {
    std::map<Change, std::uint64_t> changes;
    bool same_rules = true;  // as those of every run in the log
    std::uint64_t requests = 0, changed = 0, undecidable = 0, of_no_rule = 0;
};

bool is_move(const std::string& call) { return call.starts_with("rename") || call.starts_with("link"); }

/// A question that nobody could be asked is on record as a denial.
std::string verdict_then(const RecordedRequest& request) {
    return request.was == "deny" && request.reason == "no one to ask" ? "ask" : request.was;
}

rules::Verdict verdict_now(const RecordedRequest& recorded, const rules::RuleSet& rules) {
    rules::Request request{recorded.first, object_of(recorded), recorded.program, recorded.arguments};
    rules::Verdict verdict = rules.evaluate(request);
    if (recorded.has_second) {
        request.operations = recorded.second;
        request.object = rules::FileObject{recorded.second_object, false};
        const rules::Verdict second = rules.evaluate(request);
        if (second.action > verdict.action) verdict = second;
    }
    if (verdict.action < rules::Action::deny && !rules::lets_exist(rules, object_of(recorded))) {
        verdict.action = rules::Action::deny;
        verdict.rule = nullptr;
    }
    return verdict;
}

bool by_rules(const RecordedRequest& request) {
    return request.of_sequence == 0 && (request.decided_by == "rule" || request.decided_by == "default") &&
           !request.rule.starts_with("callgate-") && request.rule != "run-terminals";
}

std::string shown(const RecordedRequest& request) {
    return request.endpoint ? rules::text(*request.endpoint) : request.object;
}

void compare(Result& result, const RecordedRequest& request, const rules::RuleSet& rules) {
    ++result.requests;
    if (!by_rules(request)) {
        ++result.of_no_rule;
        return;
    }
    const bool asks_arguments = rules.needs_arguments() && request.first.contains(rules::Operation::execute);
    const rules::Verdict verdict = verdict_now(request, rules);
    // What a move would free is not on record: by its names alone it can be denied, but not allowed.
    // Of an interpreter's arguments, which are others than the script's, there is no record beside it.
    const bool unknown = (asks_arguments && (!request.arguments_known || request.has_second)) ||
                         (is_move(request.call) && verdict.action == rules::Action::allow);
    if (unknown) {
        ++result.undecidable;
        return;
    }
    const std::string was = verdict_then(request), now(rules::name(verdict.action));
    if (was == now) return;
    ++result.changed;
    const Change change{std::string(verdict.rule_name()), was, now,
                        std::string(rules::name(verdict.operation)), shown(request)};
    if (result.changes.size() < most_changes || result.changes.contains(change)) ++result.changes[change];
}

void write_json(std::ostream& out, const Result& result) {
    nlohmann::ordered_json changes = nlohmann::ordered_json::array();
    for (const auto& [change, count] : result.changes)
        changes.push_back({{"rule", change.rule},
                           {"was", change.was},
                           {"would_be", change.now},
                           {"operation", change.operation},
                           {"object", change.object},
                           {"count", count}});
    const nlohmann::ordered_json all = {
        {"same_rules", result.same_rules},   {"requests", result.requests},
        {"changed", result.changed},         {"undecidable", result.undecidable},
        {"not_by_rules", result.of_no_rule}, {"changes", std::move(changes)}};
    out << all.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void write_text(std::ostream& out, const Result& result) {
    if (!result.changes.empty()) {
        Table table(out, {"RULE", "WAS", "WOULD BE", "TIMES", "OPERATION", "OBJECT"}, false);
        for (const auto& [change, count] : result.changes)
            table.add({{change.rule},
                       {change.was},
                       {change.now},
                       {std::to_string(count)},
                       {change.operation},
                       {change.object}});
    }
    out << result.requests << " requests: " << result.changed << " verdicts would change, "
        << result.undecidable << " undecidable, " << result.of_no_rule << " not decided by rules\n";
}

}  // namespace

rules::Object object_of(const RecordedRequest& request) {
    if (request.endpoint) return *request.endpoint;
    if (request.unix_type) return rules::UnixObject{request.object, *request.unix_type};
    return rules::FileObject{request.object, request.nameless};
}

int replay(std::ostream& out, std::ostream& errors, const ReplayOptions& options) {
    std::string error;
    const std::string path = find_log(options.log, error);
    auto lines = Lines::open(path);
    if (!lines) {
        errors << terminal_safe(path.empty() ? error : path + ": " + lines.error().message()) << '\n';
        return exit_wrong_use;
    }
    Result result;
    std::shared_ptr<const rules::RuleSet> rules;
    BadLines bad(errors);
    for (Lines::Step step; (step = lines->next()) != Lines::Step::end;) {
        std::string problem = "longer than a record can be";
        const auto request = step == Lines::Step::line ? parse_request(lines->text(), problem) : std::nullopt;
        if (!request) {
            bad.add(lines->path(), lines->number(), problem);
            continue;
        }
        if (request->starts_run || (!rules && !request->was.empty())) {
            ReplayRules judging = options.rules_for(*request);
            rules = std::move(judging.rules);
            result.same_rules = result.same_rules && judging.sha256 == request->rules_sha256;
        }
        if (!request->was.empty()) compare(result, *request, *rules);
    }
    options.json ? write_json(out, result) : write_text(out, result);
    const int status = bad.finish();
    return result.changed > 0 ? exit_finding : status;
}

}  // namespace callgate::audit
