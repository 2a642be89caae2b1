#include "supervisor/audit/verbs/replay.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "rules/model/address.hpp"
#include "rules/plan/link_names.hpp"
#include "rules/plan/plan_audit.hpp"
#include "supervisor/audit/read/lines.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/verbs/table.hpp"

namespace callgate::audit {

namespace {

/// Further changes and contradictions are only counted.
constexpr std::size_t max_changes = 100'000, max_contradictions = 1000;
constexpr std::size_t max_executions = 4096;  // followed at once

struct Change {
    std::string rule, was, now, operation, object;
    auto operator<=>(const Change&) const = default;
};

/// An answer that the rest of the log contradicts.
struct Contradiction {
    std::string path;
    std::uint64_t line = 0, sequence = 0;
    std::string why;
};

struct Comparison {
    std::map<Change, std::uint64_t> changes;
    bool same_rules = true;  // as in every run of the log
    std::vector<Contradiction> contradictions;
    std::uint64_t requests = 0, changed = 0, undecidable = 0, of_no_rule = 0;
    std::uint64_t answered = 0, contradicted = 0;
    /// Interpreters that an answer allowed, by executing process. The next record is the execution itself.
    std::map<std::string, std::string, std::less<>> interpreters;
};

bool is_move(const std::string& call) { return call.starts_with("rename") || call.starts_with("link"); }

/// A question that could not be asked is on record as a denial.
std::string verdict_then(const RecordedRequest& request) {
    const bool unasked = request.reason == unasked::nobody || request.reason == unasked::unlinked ||
                         request.reason == unasked::late;
    return request.was == "deny" && unasked ? "ask" : request.was;
}

/// A rule set, and the names at which it lets no link be made.
struct Judging {
    explicit Judging(std::shared_ptr<const rules::RuleSet> all) : rules(std::move(all)), links(*rules) {}
    std::shared_ptr<const rules::RuleSet> rules;
    rules::LinkNames links;
};

/// `answered_second`: whether the second object has an answer of its own on record.
rules::Verdict verdict_now(const RecordedRequest& recorded, const Judging& judging, bool answered_second) {
    const rules::RuleSet& rules = *judging.rules;
    rules::Request request{recorded.first, object_of(recorded), recorded.program, recorded.arguments,
                           recorded.party.value_or(rules::Party::tools)};
    rules::Verdict verdict = rules.evaluate(request);
    if (recorded.has_second) {
        request.operations = recorded.second;
        request.object = rules::FileObject{recorded.second_object, false};
        const rules::Verdict second = rules.evaluate(request);
        const bool settled = answered_second && second.action == rules::Action::ask;
        if (second.action > verdict.action && !settled) verdict = second;
    }
    if (verdict.action < rules::Action::deny && recorded.call.starts_with("symlink")) {
        if (const rules::Rule* const reserving = judging.links.reserving(recorded.object)) {
            verdict.action = rules::Action::deny;
            verdict.rule = reserving;
        }
    }
    if (verdict.action < rules::Action::deny && !rules::lets_exist(rules, object_of(recorded))) {
        verdict.action = rules::Action::deny;
        verdict.rule = nullptr;
    }
    return verdict;
}

bool by_rules(const RecordedRequest& request) {
    return request.of_sequence == 0 && !request.by_nested &&
           (request.decided_by == "rule" || request.decided_by == "default") &&
           !request.rule.starts_with("callgate-") && request.rule != "run-terminals";
}

std::string shown(const RecordedRequest& request) {
    return request.endpoint ? rules::text(*request.endpoint) : request.object;
}

/// Whether the interpreter that this execution names was allowed by an answer just before.
bool take_answered_interpreter(Comparison& result, const RecordedRequest& request) {
    if (!request.interpreter_of.empty()) {
        if (request.was == "allow" && result.interpreters.size() < max_executions)
            result.interpreters[request.entity] = request.object;
        return false;
    }
    const auto known = result.interpreters.find(request.entity);
    if (known == result.interpreters.end() || !request.call.starts_with("exec")) return false;
    const bool named = request.has_second && known->second == request.second_object;
    result.interpreters.erase(known);
    return named;
}

void compare(Comparison& result, const RecordedRequest& request, const Judging& judging) {
    result.requests += request.count;
    const bool answered_second = take_answered_interpreter(result, request);
    const bool by_answer = answered(request) && !request.by_nested;
    if (by_answer) result.answered += request.count;
    if (!by_answer && !by_rules(request)) {
        result.of_no_rule += request.count;
        return;
    }
    const bool asks_arguments =
        judging.rules->needs_arguments() && request.first.contains(rules::Operation::execute);
    const rules::Verdict verdict = verdict_now(request, judging, answered_second);
    // A change of settings is asked about where a rule filters changes.
    const bool asks_change = is_move(request.call) && !request.arguments.empty() && verdict.rule != nullptr &&
                             verdict.rule->filters_changes();
    if (by_answer && (verdict.action == rules::Action::ask || asks_change)) return;  // the answer stands
    // The record does not say which objects a move would free. So a move can be denied by its names, but not
    // allowed. An interpreter has other arguments than its script, and they are not on record.
    const bool unknown = (asks_arguments && (!request.arguments_known || request.has_second)) ||
                         (is_move(request.call) && verdict.action == rules::Action::allow);
    if (unknown) {
        result.undecidable += request.count;
        return;
    }
    const std::string was = verdict_then(request), now(rules::name(verdict.action));
    if (was == now) return;
    result.changed += request.count;
    const Change change{std::string(verdict.rule_name()), was, now,
                        std::string(rules::name(verdict.operation)), shown(request)};
    if (result.changes.size() < max_changes || result.changes.contains(change))
        result.changes[change] += request.count;
}

void note(Comparison& result, AnswerCheck::Found found, const Lines& lines, const RecordedRequest& request) {
    if (found.finding == AnswerCheck::Finding::undecidable) ++result.undecidable;
    if (found.finding != AnswerCheck::Finding::contradicts) return;
    ++result.contradicted;
    if (result.contradictions.size() < max_contradictions)
        result.contradictions.push_back(
            {lines.path(), lines.number(), request.sequence, std::move(found.why)});
}

nlohmann::ordered_json json_of(const std::vector<Contradiction>& contradictions) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Contradiction& one : contradictions)
        all.push_back({{"file", one.path}, {"line", one.line}, {"sequence", one.sequence}, {"why", one.why}});
    return all;
}

void write_json(std::ostream& out, const Comparison& result) {
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
        {"answered", result.answered},       {"contradicted", result.contradicted},
        {"not_by_rules", result.of_no_rule}, {"contradictions", json_of(result.contradictions)},
        {"changes", std::move(changes)}};
    out << json_read::ascii_text(all, 2) << '\n';
}

void write_text(std::ostream& out, const Comparison& result) {
    for (const Contradiction& one : result.contradictions)
        out << terminal_safe(one.path) << ':' << one.line << ": record " << one.sequence << ": "
            << terminal_safe(one.why) << '\n';
    if (!result.changes.empty()) {
        Table table(out, {"RULE", "WAS", "WOULD BE", "TIMES", "OPERATION", "OBJECT"}, false);
        for (const auto& [change, count] : result.changes)
            table.add({{change.rule},
                       {change.was},
                       {change.now},
                       {std::to_string(count)},
                       {change.operation},
                       {delimited(change.object)}});
    }
    out << result.requests << " requests: " << result.changed << " verdicts would change, "
        << result.undecidable << " undecidable, " << result.of_no_rule << " not decided by rules\n";
    if (result.answered + result.contradicted > 0)
        out << result.answered << " of them answered when the rules asked: " << result.contradicted
            << " contradictions\n";
}

}  // namespace

rules::Object object_of(const RecordedRequest& request) {
    if (request.endpoint) {
        rules::Endpoint endpoint = *request.endpoint;
        endpoint.names = request.names;
        return endpoint;
    }
    if (request.look_up) return rules::HostName{request.object};
    if (request.unix_type) return rules::UnixObject{request.object, *request.unix_type};
    return rules::FileObject{request.object, request.unlinked};
}

bool answered(const RecordedRequest& request) {
    return request.of_sequence == 0 && (request.decided_by == "grant" || request.decided_by == "person" ||
                                        request.decided_by == "program" || request.decided_by == "timeout");
}

int replay(std::ostream& out, std::ostream& errors, const ReplayOptions& options) {
    const auto fail = [&errors](const std::string& why) {
        errors << terminal_safe(why) << '\n';
        return exit_wrong_use;
    };
    const Expected<std::string> path = find_log(options.log);
    if (!path) return fail(path.error().text);
    auto lines = Lines::open(*path);
    if (!lines) return fail(*path + ": " + lines.error().message());
    Comparison result;
    std::optional<Judging> rules;
    BadLines bad(errors);
    for (Lines::Step step; (step = lines->next()) != Lines::Step::end;) {
        const auto request = step == Lines::Step::line
                                 ? parse_request(lines->text())
                                 : Expected<RecordedRequest>(Problem{"longer than a record can be"});
        if (!request) {
            bad.add(lines->path(), lines->number(), request.error().text);
            continue;
        }
        if (request->starts_run || (!rules && !request->was.empty())) {
            ReplayRules found = options.rules_for(*request);
            rules.emplace(std::move(found.rules));
            result.same_rules = result.same_rules && found.sha256 == request->rules_sha256;
        }
        note(result, options.answers.look_at(*request), *lines, *request);
        if (!request->was.empty()) compare(result, *request, *rules);
    }
    options.json ? write_json(out, result) : write_text(out, result);
    const int status = bad.finish();
    return result.changed + result.contradicted > 0 ? exit_finding : status;
}

}  // namespace callgate::audit
