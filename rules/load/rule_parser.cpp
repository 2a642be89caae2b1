// Parses rules and the file around them. Conditions are in condition_parser.cpp, limits in
// settings_parser.cpp.
#include "rules/load/rule_parser.hpp"

#include <algorithm>
#include <array>

#include "base/sha256.hpp"
#include "rules/load/rule_fields.hpp"
#include "rules/load/shipped.hpp"

namespace callgate::rules {
namespace {

constexpr std::array<std::string_view, 4> action_words{"allow", "ask", "deny", "kill"};
constexpr std::array<std::string_view, 9> operation_words{
    "read", "write", "modify", "create", "delete", "metadata", "execute", "connect", "bind"};
constexpr std::array<std::string_view, 2> reserved_ids{"default", "record"};

std::optional<Action> parse_action(std::string_view word) {
    for (std::size_t index = 0; index < action_words.size(); ++index)
        if (action_words[index] == word) return static_cast<Action>(index);
    return std::nullopt;
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f; });
}

OperationSet parse_operation_list(const ParseState& state, const JsonValue& value) {
    constexpr std::string_view what = "an operation or a list of them";
    OperationSet operations;
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const std::optional<std::string_view> text = want_text(state, one, what);
        if (!text) return;
        const std::optional<OperationSet> found = parse_operations(*text);
        if (found)
            operations |= *found;
        else
            state.error(one, unknown_word("operation", *text, operation_words));
    });
    return operations;
}

/// Parses the action key. Its operations decide whether other keys are valid, so it is read first.
bool parse_action_key(const ParseState& state, const JsonValue& object, Rule& rule) {
    std::optional<JsonMember> chosen;
    for (const JsonMember& member : object.members()) {
        const std::optional<Action> action = parse_action(member.key);
        if (!action) continue;
        if (chosen) {
            state.error(member, "a rule has one action: " + in_quotes(chosen->key) + " stands there already");
            continue;
        }
        chosen = member;
        rule.action = *action;
    }
    if (!chosen) {
        state.error(object, "expected an action: \"allow\", \"ask\", \"deny\" or \"kill\"");
        return false;
    }
    rule.operations = parse_operation_list(state, chosen->value);
    return !rule.operations.empty();
}

void parse_id(const ParseState& state, const JsonValue& value, Rule& rule) {
    const std::optional<std::string_view> text = want_text(state, value, "a name");
    if (!text) return;
    const bool reserved = std::find(reserved_ids.begin(), reserved_ids.end(), *text) != reserved_ids.end();
    if (reserved)
        state.error(value, "the id " + in_quotes(*text) + " has a meaning of its own: expected another");
    else if (text->size() > 200 || has_control(*text) || text->find('=') != std::string::npos)
        state.error(value, "id " + in_quotes(*text) +
                               ": expected at most 200 bytes without \"=\" and control characters");
    else
        rule.id = *text;
}

void parse_errno(const ParseState& state, const JsonMember& member, Rule& rule) {
    if (rule.action == Action::allow || rule.action == Action::kill)
        state.error(member, "\"errno\" has no meaning for " + std::string(name(rule.action)) +
                                ": it is for \"deny\" and \"ask\"");
    const std::optional<std::string_view> text =
        want_text(state, member.value, "an errno name such as \"ENOENT\"");
    if (!text) return;
    rule.error = errno_number(*text);
    if (!rule.error) state.error(member.value, unknown_word("errno", *text, errno_names()));
}

void parse_tls(const ParseState& state, const JsonMember& member, const JsonValue& object, Rule& rule) {
    const std::optional<std::string_view> text = want_text(state, member.value, "\"pass\"");
    if (!text) return;
    if (*text != "pass") return state.error(member.value, "tls " + in_quotes(*text) + ": expected \"pass\"");
    if (!object.member("host"))
        state.error(member, "\"tls\" has no meaning without \"host\": only connects by name are checked");
    rule.tls_pass = true;
}

void parse_needs(const ParseState& state, const JsonMember& member, const JsonValue& object, Rule& rule) {
    const std::optional<std::string_view> text = want_text(state, member.value, "\"landlock-unix\"");
    if (!text) return;
    if (*text != "landlock-unix")
        return state.error(member.value, "needs " + in_quotes(*text) + ": expected \"landlock-unix\"");
    const auto protocol = object.member("protocol");
    bool datagrams = protocol.has_value();
    if (protocol)
        for_each_value(state, protocol->value, "\"datagram\"", [&](const JsonValue& one) {
            datagrams = datagrams && one.kind() == JsonValue::Kind::string && one.text() == "datagram";
        });
    if (rule.action != Action::allow || !datagrams)
        state.error(member, "\"needs\" is for a rule that allows \"protocol\": \"datagram\" alone");
    rule.needs_landlock_unix = true;
}

void parse_sni(const ParseState& state, const JsonValue& value, ParsedFile& file) {
    if (value.kind() != JsonValue::Kind::boolean) return wrong_type(state, value, "true or false");
    file.sni = value.boolean();
}

void parse_except(const ParseState& state, const JsonValue& value, Rule& rule) {
    if (!want_object(state, value, "an object of conditions")) return;
    if (value.members().empty()) return state.error(value, "an empty exception would except everything");
    Conditions conditions;
    for (const JsonMember& member : value.members()) {
        if (is_condition(member.key))
            parse_condition(state, member, rule.operations, conditions);
        else if (member.key == "expand")
            state.error(member, "\"expand\" belongs to the rule, not to its exception");
        else
            unknown_key(state, member, KeyPlace::condition);
    }
    check_conditions(state, value, conditions);
    rule.except = std::move(conditions);
}

void parse_expand(const ParseState& state, const JsonMember& member, const JsonValue& object,
                  ParsedRule& parsed) {
    const bool sources = member.value.kind() == JsonValue::Kind::string && member.value.text() == "sources";
    if (!sources && member.value.kind() != JsonValue::Kind::boolean)
        return wrong_type(state, member.value, "true, false or \"sources\"");
    if (!object.member("path")) state.error(member, "\"expand\" has no meaning without \"path\"");
    parsed.expand = sources ? Expand::sources : member.value.boolean() ? Expand::everywhere : Expand::no;
}

void parse_filtered(const ParseState& state, const JsonMember& member, const JsonValue& object, Rule& rule) {
    if (member.value.kind() != JsonValue::Kind::boolean)
        return wrong_type(state, member.value, "true or false");
    constexpr OperationSet changing{Operation::modify, Operation::create};
    const bool fits = rule.operations.contains(Operation::read) || rule.operations.contains_all(changing);
    if (rule.action != Action::deny || !fits || !object.member("path"))
        state.error(member,
                    "\"filtered\" is for rules that deny reading a \"path\", or creating and modifying one");
    rule.filtered = member.value.boolean();
}

void parse_quiet(const ParseState& state, const JsonMember& member, const JsonValue& object, Rule& rule) {
    const bool success = member.value.kind() == JsonValue::Kind::string && member.value.text() == "success";
    if (!success && member.value.kind() != JsonValue::Kind::boolean)
        return wrong_type(state, member.value, "true, false or \"success\"");
    if (object.member("filtered")) state.error(member, "\"quiet\" does not go with \"filtered\"");
    if (rule.action != Action::deny) state.error(member, "\"quiet\" is for rules that deny");
    rule.quiet = success || member.value.boolean();
    rule.told_on_failure = success;
}

/// Whether `object` has no condition but a path.
bool has_path_alone(const JsonValue& object) {
    bool path = false;
    for (const JsonMember& member : object.members()) {
        if (member.key == "path")
            path = true;
        else if (is_condition(member.key))
            return false;
    }
    return path;
}

void parse_links(const ParseState& state, const JsonMember& member, const JsonValue& object, Rule& rule) {
    if (member.value.kind() != JsonValue::Kind::boolean)
        return wrong_type(state, member.value, "true or false");
    const auto except = object.member("except");
    const bool paths = has_path_alone(object) && (!except || has_path_alone(except->value));
    if (rule.action != Action::deny || rule.operations != OperationSet(Operation::create) || !paths)
        state.error(member,
                    "\"links\" is for rules that deny to create a \"path\", without other conditions");
    rule.links = member.value.boolean();
}

void parse_reason(const ParseState& state, const JsonValue& value, Rule& rule) {
    const std::optional<std::string_view> text = want_text(state, value, "a text");
    if (!text) return;
    if (text->size() > 1000) return state.error(value, "a reason has at most 1000 bytes");
    rule.reason = *text;
}

/// Parses every key except the action.
void parse_member(const ParseState& state, const JsonMember& member, const JsonValue& object,
                  ParsedRule& parsed) {
    Rule& rule = parsed.rule;
    if (is_condition(member.key)) return parse_condition(state, member, rule.operations, rule.when);
    if (parse_action(member.key)) return;
    if (member.key == "id") return parse_id(state, member.value, rule);
    if (member.key == "reason") return parse_reason(state, member.value, rule);
    if (member.key == "errno") return parse_errno(state, member, rule);
    if (member.key == "filtered") return parse_filtered(state, member, object, rule);
    if (member.key == "quiet") return parse_quiet(state, member, object, rule);
    if (member.key == "links") return parse_links(state, member, object, rule);
    if (member.key == "tls") return parse_tls(state, member, object, rule);
    if (member.key == "needs") return parse_needs(state, member, object, rule);
    if (member.key == "except") return parse_except(state, member.value, rule);
    if (member.key == "expand") return parse_expand(state, member, object, parsed);
    unknown_key(state, member, KeyPlace::rule);
}

void parse_rule_list(const ParseState& state, const JsonValue& value, ParsedFile& file) {
    if (value.kind() != JsonValue::Kind::array) return wrong_type(state, value, "a list of rules");
    const std::size_t count = value.items().size();
    if (count > max_rules)
        return state.error(
            value, std::to_string(count) + " rules; at most " + std::to_string(max_rules) + " are taken");
    file.rules.reserve(count);
    std::size_t number = 0;
    for (const JsonValue& item : value.items()) {
        ++number;
        const std::size_t before = state.findings.errors();
        std::optional<ParsedRule> parsed = parse_rule(state, item);
        // A rule that lost a condition would match more than its author meant. Findings about other rules
        // must not depend on it, so it is dropped.
        if (!parsed || state.findings.errors() != before) continue;
        if (parsed->rule.id.empty()) parsed->rule.id = state.findings.file() + '#' + std::to_string(number);
        file.rules.push_back(std::move(*parsed));
    }
}

void parse_extends(const ParseState& state, const JsonValue& value, ParsedFile& file) {
    constexpr std::string_view what = "the name of a profile or a file, or a list of them";
    for_each_value(state, value, what, [&](const JsonValue& one) {
        if (const std::optional<std::string_view> text = want_text(state, one, what))
            file.extends.push_back({std::string(*text), one.line(), one.column()});
    });
}

void parse_exceptions(const ParseState& state, const JsonValue& value, ParsedFile& file) {
    if (!want_object(state, value, "an object such as {\"base.keys\": \"~/.ssh/config\"}")) return;
    constexpr std::string_view what = "a pattern, or a list of them";
    for (const JsonMember& member : value.members())
        for_each_value(state, member.value, what, [&](const JsonValue& one) {
            if (const std::optional<std::string_view> text = want_text(state, one, what))
                file.exceptions.push_back(
                    {std::string(member.key), std::string(*text), one.line(), one.column()});
        });
}

void parse_programs(const ParseState& state, const JsonValue& value, std::vector<Glob>& programs) {
    constexpr std::string_view what = "a pattern of programs, or a list of them";
    state.patterns.homes(PatternMaker::Homes::programs);
    for_each_value(state, value, what, [&](const JsonValue& one) {
        const std::optional<std::string_view> text = want_text(state, one, what);
        if (!text) return;
        if (const Expected<void> made = state.patterns.make(*text, false, programs); !made)
            state.error(one, "pattern " + in_quotes(*text) + ": " + made.error().text);
    });
}

void parse_texts(const ParseState& state, const JsonValue& value, std::string_view what,
                 std::vector<std::string>& texts) {
    for_each_value(state, value, what, [&](const JsonValue& one) {
        if (const std::optional<std::string_view> text = want_text(state, one, what))
            texts.emplace_back(*text);
    });
}

void parse_agent(const ParseState& state, const JsonValue& value, Agent& agent) {
    if (value.kind() != JsonValue::Kind::object) return parse_programs(state, value, agent.programs);
    for (const JsonMember& member : value.members()) {
        if (member.key == "program")
            parse_programs(state, member.value, agent.programs);
        else if (member.key == "command")  // cli/agent_command.cpp reads it
            static_cast<void>(want_text(state, member.value, "the name of a command"));
        else if (member.key == "launcher")
            parse_programs(state, member.value, agent.launchers);
        else if (member.key == "starts")
            parse_texts(state, member.value, "a name beneath node_modules, or a list of them", agent.starts);
        else if (member.key == "interpreter")
            parse_texts(state, member.value, "a command and its arguments", agent.interpreter);
        else if (member.key == "arguments")
            parse_texts(state, member.value, "an argument of the agent, or a list of them", agent.arguments);
        else
            unknown_key(state, member, KeyPlace::agent);
    }
}

void parse_examples(const ParseState& state, const JsonValue& value, ParsedFile& file) {
    if (!want_object(state, value, "an object such as {\"allow\": [...], \"deny\": [...]}")) return;
    constexpr std::string_view what = "a line such as \"read ~/notes.txt\" or a list of them";
    for (const JsonMember& member : value.members()) {
        const std::optional<Action> expected = parse_action(member.key);
        if (!expected) {
            unknown_key(state, member, KeyPlace::example);
            continue;
        }
        for_each_value(state, member.value, what, [&](const JsonValue& one) {
            if (const std::optional<std::string_view> text = want_text(state, one, what))
                file.examples.push_back({*expected, std::string(*text), one.line(), one.column()});
        });
    }
}

void parse_default(const ParseState& state, const JsonValue& value, ParsedFile& file) {
    constexpr std::array<std::string_view, 3> words{"allow", "ask", "deny"};
    const std::optional<std::string_view> text = want_text(state, value, "\"allow\", \"ask\" or \"deny\"");
    if (!text) return;
    const std::optional<Action> action = parse_action(*text);
    if (!action || *action == Action::kill) return state.error(value, unknown_word("default", *text, words));
    file.fallback = action;
}

void parse_top(const ParseState& state, const JsonMember& member, ParsedFile& file) {
    const JsonValue& value = member.value;
    if (member.key == "rules") return parse_rule_list(state, value, file);
    if (member.key == "extends") return parse_extends(state, value, file);
    if (member.key == "default") return parse_default(state, value, file);
    if (member.key == "sni") return parse_sni(state, value, file);
    if (member.key == "exceptions") return parse_exceptions(state, value, file);
    if (member.key == "agent") return parse_agent(state, value, file.agent);
    if (member.key == "limits") return parse_limits(state, value, file.limits);
    if (member.key == "environment") return parse_environment(state, value, file.environment);
    if (member.key == "examples") return parse_examples(state, value, file);
    if (member.key == "version") {
        if (value.kind() != JsonValue::Kind::number || value.text() != "1")
            state.error(value, "expected version 1, the only one that there is, not " + describe(value));
    } else if (member.key == "description" || member.key == "$schema") {
        if (value.kind() != JsonValue::Kind::string) return wrong_type(state, value, "a text");
        if (member.key == "description") file.description = value.text();
    } else {
        unknown_key(state, member, KeyPlace::file);
    }
}

}  // namespace

namespace {

PatternMaker::Homes homes_of(const Rule& rule) {
    if (rule.action == Action::deny || rule.action == Action::kill) return PatternMaker::Homes::all;
    const bool programs = rule.action == Action::allow && rule.operations.contains(Operation::execute) &&
                          !rule.operations.intersects(write_operations);
    return programs ? PatternMaker::Homes::programs : PatternMaker::Homes::own;
}

}  // namespace

std::optional<ParsedRule> parse_rule(const ParseState& state, const JsonValue& value) {
    if (!want_object(state, value, "a rule (an object)")) return std::nullopt;
    ParsedRule parsed;
    parsed.rule.source = state.findings.at(value.line(), value.column());
    const bool has_action = parse_action_key(state, value, parsed.rule);
    state.patterns.homes(homes_of(parsed.rule));
    for (const JsonMember& member : value.members()) parse_member(state, member, value, parsed);
    check_conditions(state, value, parsed.rule.when);
    if (!has_action) return std::nullopt;
    if (parsed.rule.links) {
        parsed.rule.operations = {};
        parsed.expand = Expand::no;
    }
    return parsed;
}

namespace {

ParsedFile parse_tree(const JsonTree& tree, Findings& findings, PatternMaker& patterns) {
    ParsedFile file;
    const ParseState state{findings, patterns};
    const JsonValue whole = root(tree);
    if (!want_object(state, whole, "a rule set (an object)")) return file;
    for (const JsonMember& member : whole.members()) parse_top(state, member, file);
    return file;
}

}  // namespace

ParsedFile parse_rules(std::string_view text, const std::string& label, PatternMaker& patterns,
                       std::vector<Diagnostic>& diagnostics) {
    Findings findings(label, diagnostics);
    const std::optional<JsonDocument> document = parse_json(text, findings);
    if (!document) return {};
    ParsedFile file = parse_tree(document->tree(), findings, patterns);
    file.sha256 = sha256_hex(canonical_json(document->tree()));
    return file;
}

ParsedFile parse_rules(const ShippedProfile& profile, const std::string& label, PatternMaker& patterns,
                       std::vector<Diagnostic>& diagnostics) {
    Findings findings(label, diagnostics);
    ParsedFile file = parse_tree(profile.tree, findings, patterns);
    file.sha256 = profile.sha256;
    return file;
}

}  // namespace callgate::rules
