// Denials, as the footer and the report speak of them.
#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>
#include <variant>

#include "base/credential_name.hpp"
#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "base/plural.hpp"
#include "base/reader_letters.hpp"
#include "base/test_switch.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

std::string note_of(const audit::Decision& decision) {
    std::string note(decision.reason.empty() ? decision.verdict.reason() : decision.reason);
    const auto add = [&note](std::string_view text) { (note += note.empty() ? "" : "; ") += text; };
    // A second record has its own line, and concerns one process.
    if (decision.mechanism == audit::Mechanism::kill && decision.of_sequence == 0) add("killed the run");
    if (decision.verdict.decided_by == rules::DecidedBy::timeout) {
        add("nobody answered in time");
    } else if (decision.verdict.action == rules::Action::ask && audit::refused(decision)) {
        add(audit::unasked::nobody);
    }
    if (decision.verdict.error == EXDEV && decision.verdict.rule != nullptr &&
        decision.verdict.rule->action == rules::Action::allow)
        add("there it would have more rights; most programs copy it instead");
    if (const auto* file = std::get_if<rules::FileObject>(&decision.object);
        file != nullptr && decision.verdict.rule == nullptr && may_hold_credential(file->path))
        add("by its name it may hold a credential");
    return note;
}

/// A program may have written the rules of a nested run: whoever reads the text must not take it for
/// callgate's own.
std::string said_by_nested(const std::string& text) {
    return text.empty() ? text : "it says " + json_string(text);
}

/// A name is not known to programs; that is worth saying in the words of its user.
std::string name_line(const Denial& denial, bool hints) {
    const std::string program = denial.program.substr(denial.program.rfind('/') + 1);
    std::string line =
        "callgate:   name denied: " + delimited_name(denial.object) + " (" + plural(denial.count, "look-up");
    if (!program.empty()) line += " by " + delimited_name(program);
    if (denial.by_rule) line += ", " + rule_text(denial);
    if (!denial.note.empty()) line += ": " + terminal_safe(denial.note);
    line += ")";
    if (hints && !denial.hint.empty()) line += "; allow with " + denial.hint;
    return line + '\n';
}

/// Whether the rules allow this connect to a server of the run's own.
bool allowed_to_server(const audit::Decision& decision, const rules::RuleSet* rules) {
    const auto* const endpoint = std::get_if<rules::Endpoint>(&decision.object);
    if (rules == nullptr || endpoint == nullptr || decision.operation != rules::Operation::connect)
        return false;
    rules::Endpoint server = *endpoint;
    server.of_run = true;
    return rules
               ->evaluate({rules::Operation::connect,
                           server,
                           decision.caller.executable,
                           {},
                           decision.caller.party.value_or(rules::Party::tools)})
               .action == rules::Action::allow;
}

std::pair<std::string_view, std::string_view> host_and_port(std::string_view endpoint) {
    const std::size_t colon = std::min(endpoint.rfind(':'), endpoint.size());
    return {endpoint.substr(0, colon), endpoint.substr(colon)};
}

}  // namespace

void name_server_options(std::vector<Denial>& denials) {
    for (Denial& one : denials) {
        if (!one.to_server || one.would || one.hint.empty()) continue;
        const auto [host, port] = host_and_port(one.object);
        const Denial* found = nullptr;
        for (const Denial& bound : denials) {
            if (bound.operation != rules::Operation::bind || !bound.hint.starts_with("--bind ")) continue;
            const auto [bound_host, bound_port] = host_and_port(bound.object);
            const bool same = bound_host == host;
            if (bound_port != port || !(same || bound_host == "0.0.0.0" || bound_host == "[::]")) continue;
            if (found == nullptr || same) found = &bound;
        }
        if (found != nullptr) one.hint = found->hint;
    }
}

bool is_of_nested(const audit::Decision& decision, const rules::RuleSet* own, bool of_nested) {
    const rules::Rule* const rule = decision.verdict.rule;
    if (!decision.verdict.nested || !check_enabled("nested-reason")) return false;
    if (rule == nullptr) return !of_nested;
    const auto holds = [rule](std::span<const rules::Rule> all) {
        return std::ranges::any_of(all, [rule](const rules::Rule& one) { return &one == rule; });
    };
    return own == nullptr || !(holds(own->rules()) || holds(own->quiet_rules()));
}

std::string rule_text(const Denial& denial) {
    return (denial.by_nested ? "of a nested run: " : "") + std::string(denial.by_rule ? "rule " : "") +
           terminal_safe(denial.rule);
}

std::string rule_of(const audit::Decision& decision) {
    const rules::Verdict& verdict = decision.verdict;
    if (verdict.rule == nullptr) return std::string(rules::name(verdict.decided_by));
    return std::string(verdict.rule_name());
}

std::string denial_line(const Denial& denial, bool hints) {
    if (denial.look_up) return name_line(denial, hints);
    std::string line = "callgate:   " + std::string(rules::name(denial.operation)) + ' ' +
                       delimited_name(denial.object) + denial.others + " ×" + std::to_string(denial.count) +
                       "  " + rule_text(denial);
    if (!denial.note.empty()) line += " (" + terminal_safe(denial.note) + ')';
    if (hints && !denial.hint.empty()) line += "  allow with: " + denial.hint;
    return line + '\n';
}

Denial denial_of(const audit::Decision& decision, const rules::RuleSet* rules, const std::string& home,
                 bool of_nested) {
    const bool by_nested = is_of_nested(decision, rules, of_nested);
    return {.object = object_text(decision),
            .rule = rule_of(decision),
            .program = std::string(decision.caller.executable),
            .hint = by_nested ? "" : offered_hint(decision, rules, home),
            .note = by_nested ? said_by_nested(note_of(decision)) : note_of(decision),
            .operation = decision.operation,
            .by_rule = decision.verdict.rule != nullptr,
            .by_nested = by_nested,
            .would = !audit::refused(decision),
            .look_up = std::holds_alternative<rules::HostName>(decision.object),
            .to_server = !by_nested && allowed_to_server(decision, rules),
            .pid = decision.caller.pid,
            .error = decision.verdict.error,
            .count = 1};
}

}  // namespace callgate
