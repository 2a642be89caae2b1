#include "supervisor/run/report.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/json_writer.hpp"
#include "base/plural.hpp"
#include "base/reader_letters.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/run/observed_summary.hpp"
#include "supervisor/run/quiet_looks.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

constexpr std::size_t max_denials = 256, max_lines = 10;

/// Whether the command itself ended with a status of failure. A signal or a limit says nothing of the calls.
bool has_failed(const RunOutcome& outcome) {
    return outcome.outcome == Outcome::exited && outcome.exit_code != 0;
}

/// The argument by which `callgate audit show` finds this log: the run, or a file outside the log directory.
std::string log_argument(const RunFacts& facts) {
    return facts.audit_file.ends_with('-' + facts.run + ".jsonl") ? facts.run : shell_quote(facts.audit_file);
}

}  // namespace

struct RunReport::State {
    std::shared_ptr<const rules::RuleSet> rules;
    std::string home;
    const calls::Refusals* refusals = nullptr;
    DenialsFile* told = nullptr;
    std::atomic<std::uint64_t> allow = 0, ask = 0, deny = 0, kill = 0;
    std::atomic<std::uint64_t> would_ask = 0, would_deny = 0, would_kill = 0;
    std::atomic<std::uint64_t> quiet = 0;  // of `deny`: neither listed nor told

    mutable std::mutex lock;
    std::vector<Denial> denials;  // in the order of their first calls
    std::unordered_map<std::string, std::size_t> index;
    std::vector<Denial> on_failure;              // quiet ones that are told if the command failed
    std::uint64_t unkept = 0, unkept_would = 0;  // calls of denials beyond the bound
    bool of_nested = false;                      // the report is one of a nested run
    ObservedSummary observed;
    std::vector<std::string> warnings;  // about look-ups that were allowed

    void warn(std::string_view text);
    void keep(const audit::Decision& decision);
    void keep_for_failure(const audit::Decision& decision);
    /// The denials that are told: those of a failed command have one more kind. Call it under `lock`.
    [[nodiscard]] std::vector<Denial> told_of(const RunOutcome& outcome) const;
    /// The calls of that further kind; 0 if the command did not fail.
    [[nodiscard]] std::uint64_t told_late(const RunOutcome& outcome) const;
    void tell(const Denial* denial);
    [[nodiscard]] std::string denials_text(const RunFacts& facts, const RunOutcome& outcome,
                                           std::uint64_t denied, bool hints) const;
};

void RunReport::State::keep_for_failure(const audit::Decision& decision) {
    const std::lock_guard guard(lock);
    const std::string object = object_text(decision), rule = rule_of(decision);
    const auto known = std::ranges::find_if(on_failure, [&](const Denial& one) {
        return one.operation == decision.operation && one.object == object && one.rule == rule;
    });
    if (known != on_failure.end()) {
        ++known->count;
    } else if (on_failure.size() < max_lines) {
        on_failure.push_back(denial_of(decision, rules.get(), home, of_nested));
    }
}

std::vector<Denial> RunReport::State::told_of(const RunOutcome& outcome) const {
    std::vector<Denial> all = denials;
    if (has_failed(outcome)) all.insert(all.end(), on_failure.begin(), on_failure.end());
    name_server_options(all);
    return all;
}

std::uint64_t RunReport::State::told_late(const RunOutcome& outcome) const {
    std::uint64_t calls = 0;
    if (has_failed(outcome))
        for (const Denial& one : on_failure) calls += one.count;
    return calls;
}

void RunReport::State::keep(const audit::Decision& decision) {
    const std::string object = object_text(decision);
    const std::string rule = rule_of(decision);
    const bool by_nested = is_of_nested(decision, rules.get(), of_nested);
    const std::string key = std::string(rules::name(decision.operation)) + '\0' + rule + '\0' +
                            (by_nested ? "nested" : "") + '\0' + object;
    const std::lock_guard guard(lock);
    if (const auto known = index.find(key); known != index.end()) {
        ++denials[known->second].count;
        return;
    }
    if (denials.size() == max_denials) {
        const bool refused = audit::refused(decision);
        ++(refused ? unkept : unkept_would);
        if (refused) tell(nullptr);
        return;
    }
    index.emplace(key, denials.size());
    denials.push_back(denial_of(decision, rules.get(), home, of_nested));
    if (!denials.back().would) tell(&denials.back());
}

/// Tells the command of a denial, or, without one, that there are more than it is told of. Call it under
/// `lock`.
void RunReport::State::tell(const Denial* denial) {
    if (told == nullptr) return;
    const int error = denial != nullptr ? told->add(*denial) : told->end();
    if (error != 0 && warnings.size() < max_lines)
        warnings.push_back("callgate: the list of denials that the command reads is not whole: " +
                           std::generic_category().message(error) + '\n');
}

void RunReport::State::warn(std::string_view text) {
    const std::lock_guard guard(lock);
    if (warnings.size() < max_lines) warnings.push_back("callgate: " + terminal_safe(text) + '\n');
}

RunReport::RunReport() : state_(std::make_unique<State>()) {}
RunReport::~RunReport() = default;

void RunReport::use_rules(std::shared_ptr<const rules::RuleSet> rules, const std::string& home) {
    state_->rules = std::move(rules);
    state_->home = home;
}

void RunReport::for_nested_run() { state_->of_nested = true; }

void RunReport::use_refusals(const calls::Refusals& refusals) { state_->refusals = &refusals; }

void RunReport::use_denials(DenialsFile& denials) { state_->told = &denials; }

void RunReport::note(const audit::Decision& decision) {
    State& state = *state_;
    const rules::Action action = decision.verdict.action;
    if (action == rules::Action::allow || decision.mechanism == audit::Mechanism::filtered) {
        state.allow.fetch_add(1, std::memory_order_relaxed);
        if (!decision.reason.empty() && std::holds_alternative<rules::HostName>(decision.object))
            state.warn(decision.reason);
        return;
    }
    const bool refused = audit::refused(decision);
    std::atomic<std::uint64_t>& count = action == rules::Action::ask ? (refused ? state.ask : state.would_ask)
                                        : action == rules::Action::kill
                                            ? (refused ? state.kill : state.would_kill)
                                            : (refused ? state.deny : state.would_deny);
    count.fetch_add(1, std::memory_order_relaxed);
    if (!refused) state.observed.note(decision);
    if (refused && is_quiet(decision)) {
        state.quiet.fetch_add(1, std::memory_order_relaxed);
        if (decision.verdict.rule != nullptr && decision.verdict.rule->told_on_failure)
            state.keep_for_failure(decision);
        return;
    }
    state.keep(decision);
}

audit::Counts RunReport::counts() const {
    const State& state = *state_;
    return {.allow = state.allow,
            .ask = state.ask,
            .deny = state.deny,
            .kill = state.kill,
            .would_deny = state.would_deny,
            .would_ask = state.would_ask,
            .would_kill = state.would_kill};
}

std::string RunReport::State::denials_text(const RunFacts& facts, const RunOutcome& outcome,
                                           std::uint64_t denied, bool hints) const {
    const std::lock_guard guard(lock);
    std::string text = half_switched_text(denials, facts.workdir);
    text += "callgate: denied " + plural(denied, "call") + " (run " + facts.run + ")\n";
    std::uint64_t more = unkept;
    std::size_t lines = 0;
    for (const Denial& denial : gathered(told_of(outcome), facts.home)) {
        if (denial.would) continue;
        if (lines++ < max_lines) {
            text += denial_line(denial, hints);
        } else {
            more += denial.count;
        }
    }
    if (more > 0) {
        text += "callgate:   … and " + std::to_string(more) + " more";
        if (!facts.audit_file.empty()) text += ": callgate audit show " + log_argument(facts);
        text += '\n';
    }
    return hints ? text + repository_text(denials, facts) : text;
}

std::string RunReport::last_denial(rules::Operation operation, bool hints) const {
    const std::lock_guard guard(state_->lock);
    const auto& all = state_->denials;
    const auto last = std::find_if(all.rbegin(), all.rend(),
                                   [operation](const Denial& one) { return one.operation == operation; });
    if (last == all.rend()) return {};
    const std::string by = last->by_rule             ? rule_text(*last)
                           : last->rule == "default" ? "the default"
                                                     : "callgate";
    std::string text = delimited_name(last->object) + " is denied by " + by;
    if (!last->note.empty()) text += ": " + terminal_safe(last->note);
    if (hints && !last->hint.empty()) text += "; allow with: " + last->hint;
    return text;
}

/// The lines that close an audited run.
std::string RunReport::observed_text(const RunFacts& facts, std::uint64_t would, bool hints) const {
    const std::string nothing = "callgate: audit mode, nothing was enforced: ";
    if (would == 0) return nothing + "the rules would have denied nothing (run " + facts.run + ")\n";
    std::string text = nothing + "the rules would have denied " + plural(would, "call") + " (run " +
                       facts.run + ")\n" + state_->observed.text();
    if (hints && !facts.audit_file.empty())
        text += "callgate: a rule set from this: callgate audit suggest " + log_argument(facts) +
                " > rules.json\n";
    return text;
}

std::string RunReport::footer(const RunFacts& facts, const RunOutcome& outcome, bool hints) const {
    const audit::Counts all = counts();
    std::uint64_t denied = all.deny + all.ask + all.kill - state_->quiet;
    {
        const std::lock_guard guard(state_->lock);
        denied += state_->told_late(outcome);
    }
    const std::uint64_t would = all.would_deny + all.would_ask + all.would_kill;
    std::string text;
    if (denied > 0) text = state_->denials_text(facts, outcome, denied, hints);
    if (facts.mode == Mode::audit) text += observed_text(facts, would, hints);
    if (state_->refusals != nullptr) text += refusals_text(state_->refusals->all(), outcome);
    {
        const std::lock_guard guard(state_->lock);
        for (const std::string& line : state_->warnings) text += line;
    }
    if (outcome.ended_background > 0) {
        text += "callgate: ended " + std::to_string(outcome.ended_background) +
                (outcome.ended_background == 1 ? " process" : " processes") +
                " that the command left running\n";
    }
    text += planted_line(facts.planted);
    return text;
}

std::string RunReport::json(const RunFacts& facts, const RunOutcome& outcome, std::uint64_t records,
                            const std::string& head) const {
    const audit::Counts all = counts();
    const std::lock_guard guard(state_->lock);
    return report_json(
        facts, outcome, all, state_->told_of(outcome), state_->quiet - state_->told_late(outcome),
        state_->refusals == nullptr ? std::vector<calls::Refusals::Seen>{} : state_->refusals->all(), records,
        head);
}

std::string RunReport::gathered_json() const {
    const audit::Counts all = counts();
    const std::lock_guard guard(state_->lock);
    return json_text([&](JsonWriter& json) {
        json.begin_object()
            .member("allow", all.allow)
            .member("ask", all.ask)
            .member("deny", all.deny)
            .member("kill", all.kill)
            .member("quiet", state_->quiet.load())
            .member("unkept", state_->unkept);
        const auto add = [&](const Denial& one) {
            json.begin_object()
                .bytes("object", one.object)
                .bytes("program", one.program)
                .bytes("hint", one.hint)
                .member("rule", one.rule)
                .bytes("note", one.note)
                .member("operation", rules::name(one.operation))
                .member("by_rule", one.by_rule)
                .member("look_up", one.look_up)
                .member("to_server", one.to_server)
                .member("pid", one.pid)
                .member("error", one.error)
                .member("count", one.count)
                .end_object();
        };
        json.list("denials", state_->denials, add);
        json.list("on_failure", state_->on_failure, add);
        json.end_object();
    });
}

void RunReport::take(const nlohmann::json& gathered) {
    using namespace json_read;
    const auto bytes = [](const nlohmann::json& value, const std::string& name) {
        const std::string encoded = text(member(value, (name + "_b64").c_str()));
        return encoded.empty() ? text(member(value, name.c_str())) : decode_base64(encoded).value_or("");
    };
    State& state = *state_;
    state.allow = number(member(gathered, "allow"));
    state.ask = number(member(gathered, "ask"));
    state.deny = number(member(gathered, "deny"));
    state.kill = number(member(gathered, "kill"));
    state.quiet = number(member(gathered, "quiet"));
    const auto take_into = [&](std::vector<Denial>& into, const nlohmann::json& denials, std::size_t most) {
        if (!denials.is_array()) return;
        for (const nlohmann::json& one : denials) {
            const auto operation = rules::parse_operations(text(member(one, "operation")));
            if (!operation || operation->empty() || into.size() == most) continue;
            into.push_back({.object = bytes(one, "object"),
                            .rule = text(member(one, "rule")),
                            .program = bytes(one, "program"),
                            .hint = bytes(one, "hint"),
                            .note = bytes(one, "note"),
                            .operation = *operation->begin(),
                            .by_rule = truth(member(one, "by_rule")),
                            .look_up = truth(member(one, "look_up")),
                            .to_server = truth(member(one, "to_server")),
                            .pid = static_cast<int>(number(member(one, "pid"))),
                            .error = static_cast<int>(number(member(one, "error"))),
                            .count = number(member(one, "count"))});
        }
    };
    const std::lock_guard guard(state.lock);
    state.unkept = number(member(gathered, "unkept"));
    take_into(state.denials, member(gathered, "denials"), max_denials);
    take_into(state.on_failure, member(gathered, "on_failure"), max_lines);
}

}  // namespace callgate
