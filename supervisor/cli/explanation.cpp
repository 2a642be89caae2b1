#include "supervisor/cli/explanation.hpp"

#include <algorithm>

#include "base/json_writer.hpp"
#include "rules/load/pattern.hpp"
#include "rules/model/address.hpp"
#include "rules/plan/plan_audit.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/names/hosts.hpp"
#include "supervisor/run/report.hpp"

namespace callgate::cli {

namespace {

using rules::Action;
using rules::Operation;

/// Datagram sockets are closed unless a rule opens them, whatever the default says.
void close_datagrams(Answer& answer, const Question& question, const rules::RuleSet& rules) {
    if (rules::lets_exist(rules, question.object)) return;
    answer.kernel = true;
    answer.tier = "no rule names such datagrams, so their sockets cannot be made (EPROTONOSUPPORT)";
    if (answer.verdict.action >= Action::deny) return;
    answer.verdict.action = Action::deny;
    answer.verdict.decided_by = rules::DecidedBy::fallback;
    answer.verdict.rule = nullptr;
}

/// Says who decides: callgate, or the kernel alone if the call is not notified.
void find_tier(Answer& answer, const Question& question, const rules::Plan& plan) {
    if (!answer.tier.empty()) return;
    const bool allowed = answer.verdict.action == Action::allow;
    const bool file = std::holds_alternative<rules::FileObject>(question.object);
    if (!plan.notified.intersects(question.operations)) {
        answer.kernel = true;
        answer.tier = allowed ? "the kernel allows it alone; callgate is not asked"
                              : "the kernel denies it alone; callgate is not asked";
        return;
    }
    constexpr rules::OperationSet never{Operation::metadata, Operation::connect, Operation::bind};
    if (allowed && question.operations.contains(Operation::execute) && plan.notify_only_execute) {
        answer.tier = "callgate decides each call, and again on what then runs";
        return;
    }
    const rules::StaticGrants grants(plan);
    if (allowed && file && !question.operations.intersects(never) &&
        grants.allow(question.operations, question.name) &&
        !(plan.notify_only && question.operations.contains(Operation::read))) {
        if (question.operations.contains(Operation::remove) && grants.may_carry(question.name)) {
            answer.tier = "callgate performs it, because what Landlock allows of this name goes with it";
            return;
        }
        answer.kernel = true;
        answer.tier = "Landlock allows it; the call is seen and goes on as it is";
        if (question.operations == rules::OperationSet{Operation::create} &&
            !grants.allow({Operation::create, Operation::modify}, question.name))
            answer.tier += " (a file made by an open for writing: callgate decides it and performs it)";
        return;
    }
    answer.tier = allowed ? "callgate decides each call and performs it" : "callgate decides each call";
}

std::string why_lost(const rules::Rule& loser, const rules::Verdict& verdict, Operation operation) {
    if (operation != verdict.operation)
        return "it decides " + std::string(rules::name(operation)) + ", and what decides " +
               std::string(rules::name(verdict.operation)) + " is as strict or stricter";
    if (loser.action == verdict.action) return "says the same, and stands later";
    return std::string(rules::name(verdict.action)) + " wins over " + std::string(rules::name(loser.action));
}

/// The program looks the object's name up before it can connect; this says what it then gets.
void find_look_up(Answer& answer, const Question& question, const CompiledRules& compiled) {
    if (question.host.empty() || !question.operations.contains(Operation::connect)) return;
    const std::string& name = question.host.front();
    if (!compiled.plan.look_ups) {
        answer.look_up =
            compiled.plan.udp
                ? "not decided: it goes to the machine's name servers, as rules about addresses say"
                : "closed: no rule names a host, and the default does not ask";
        return;
    }
    names::Hosts own;
    own.refresh();
    if (own.find(name) != nullptr) {
        answer.look_up = "answered from this machine's own names; nothing leaves it";
        return;
    }
    const rules::Verdict verdict = compiled.loaded.rules->evaluate(
        {Operation::connect, rules::HostName{name}, question.program, {}, question.party});
    const std::string by = verdict.rule == nullptr ? "by default" : "by " + describe(*verdict.rule);
    if (verdict.action >= Action::deny) {
        answer.look_up = "denied " + by + ": the name does not exist for the program";
    } else if (names::local_name(name) && !names::named_by(verdict.rule, name)) {
        answer.look_up = "denied: a name of the local network, which no rule names";
    } else if (verdict.action == Action::ask) {
        answer.look_up = "asked " + by + "; the answer counts for the connect too";
    } else {
        answer.look_up = "allowed " + by + ": the machine's name servers are asked";
    }
}

void find_losers(Answer& answer, const Question& question, const rules::RuleSet& rules) {
    const rules::Request request = question.request();
    // Rules for the deciding operation come first, because they explain the verdict best.
    std::vector<Operation> order{answer.verdict.operation};
    for (const Operation one : question.operations)
        if (one != answer.verdict.operation) order.push_back(one);
    const auto told = [&answer](const rules::Rule* rule) {
        return rule == answer.verdict.rule ||
               std::any_of(answer.lost.begin(), answer.lost.end(),
                           [rule](const Loser& one) { return one.rule == rule; });
    };
    for (const Operation operation : order) {
        if (!question.operations.contains(operation)) continue;
        for (const rules::Rule* rule : rules.matching(request, operation))
            if (!told(rule)) answer.lost.push_back({rule, why_lost(*rule, answer.verdict, operation)});
    }
    for (const Operation operation : order) {
        for (const rules::NearMiss& one : rules::near_misses(rules, request, operation)) {
            const bool again =
                told(one.rule) || std::any_of(answer.near.begin(), answer.near.end(),
                                              [&](const auto& other) { return other.rule == one.rule; });
            if (!again) answer.near.push_back(one);
        }
    }
}

std::string source_of(const rules::Rule& rule) {
    return rule.source.line == 0 ? rule.source.file
                                 : rule.source.file + ":" + std::to_string(rule.source.line);
}

/// A rule that would deny what is allowed, as text for a rule set.
std::string denying_rule(const Question& question) {
    return json_text([&](JsonWriter& rule) {
        rule.begin_object().list("deny", question.operations,
                                 [&](Operation one) { rule.value(rules::name(one)); });
        if (const auto* end = std::get_if<rules::Endpoint>(&question.object)) {
            if (end->names.empty()) {
                rule.member("address", rules::text(end->address));
            } else {
                rule.member("host", end->names.front());
            }
            rule.member("port", end->port);
            if (end->protocol == rules::Protocol::udp) rule.member("protocol", "udp");
        } else if (const auto* host = std::get_if<rules::HostName>(&question.object)) {
            rule.member("host", host->name);
        } else {
            rule.member(std::holds_alternative<rules::FileObject>(question.object) ? "path" : "unix",
                        rules::quote_glob(question.name));
        }
        rule.end_object();
    });
}

/// The option with the host that was asked about in place of the address that stands for it.
std::string with_host(std::string hint, const Question& question) {
    const auto* const end = std::get_if<rules::Endpoint>(&question.object);
    if (end == nullptr || end->names.empty()) return hint;
    const std::string udp = end->protocol == rules::Protocol::udp ? "/udp" : "";
    const std::string address = shell_quote(rules::text(*end) + udp);
    if (const std::size_t at = hint.find(address); at != std::string::npos)
        hint.replace(at, address.size(), shell_quote(question.shown));
    return hint;
}

void find_change(Answer& answer, const Question& question, const rules::RuleSet& rules) {
    const rules::Verdict& verdict = answer.verdict;
    if (verdict.action == Action::allow) {
        answer.change = "a rule that denies it: " + denying_rule(question);
        return;
    }
    audit::Decision decision;
    decision.operation = verdict.operation;
    decision.operations = question.operations;
    decision.object = question.object;
    decision.caller.executable = question.program;
    decision.input.arguments = question.arguments;
    decision.verdict = verdict;
    answer.hint = with_host(hint(decision, rules), question);
    if (!answer.hint.empty()) answer.change = "callgate run " + answer.hint;
    const rules::Rule* const rule = verdict.rule;
    if (rule == nullptr || rule->quiet) {
        if (answer.hint.empty()) answer.change = "a rule that allows it";
        return;
    }
    if (rule->built_in) {
        answer.change = "nothing changes it: callgate keeps this to itself, whatever the rules say";
    } else {
        answer.change += (answer.hint.empty() ? "" : "; or ") + std::string("an \"except\" in rule ") +
                         rule->id + " (" + source_of(*rule) + ")";
    }
}

}  // namespace

Answer answer_question(const Question& question, const CompiledRules& compiled) {
    const rules::RuleSet& rules = *compiled.loaded.rules;
    Answer answer;
    answer.verdict = rules.evaluate(question.request());
    if (rules.needs_party()) {
        rules::Request other = question.request();
        other.party = other_of(question.party);
        answer.other_party = rules.evaluate(other);
    }
    if (question.operations.contains(rules::Operation::execute))
        answer.agents_own = compiled.loaded.environment.agent;
    close_datagrams(answer, question, rules);
    find_tier(answer, question, compiled.plan);
    find_look_up(answer, question, compiled);
    find_losers(answer, question, rules);
    find_change(answer, question, rules);
    return answer;
}

}  // namespace callgate::cli
