#include "supervisor/approval/questions/question_view.hpp"

#include <algorithm>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/json_writer.hpp"

namespace callgate::approval {

namespace {

using namespace json_read;

/// The text of `KEY`, or the bytes of `KEY_b64` if they are given.
std::string bytes(const json& value, const std::string& key) {
    const std::string encoded = text(member(value, (key + "_b64").c_str()));
    return encoded.empty() ? text(member(value, key.c_str())) : decode_base64(encoded).value_or("");
}

void read_object(QuestionView& shown, const json& message) {
    const json& object = member(message, "object");
    shown.kind = text(member(object, "kind"));
    if (shown.kind == "internet") {
        shown.object = text(member(object, "address"));
    } else {
        shown.object = bytes(object, shown.kind == "file" ? "path" : "name");
    }
    shown.host = text(member(object, "host"));
    shown.exists = truth(member(object, "exists"));
    shown.directory = truth(member(object, "directory"));
    if (member(object, "size").is_number_unsigned()) shown.size = number(member(object, "size"));
    shown.second_path = bytes(message, "second_path");
    shown.source = bytes(message, "source");
}

void read_process(QuestionView& shown, const json& process) {
    shown.process = static_cast<pid_t>(number(member(process, "pid")));
    shown.program = text(member(process, "program"));
    shown.argv = texts(member(process, "argv"));
    if (!member(process, "ancestors").is_array()) return;
    for (const json& one : member(process, "ancestors"))
        shown.ancestors.push_back(
            {static_cast<pid_t>(number(member(one, "pid"))), text(member(one, "program"))});
}

QuestionView shown_of(const json& message) {
    QuestionView shown;
    shown.id = number(member(message, "id"));
    shown.key = text(member(message, "key"));
    shown.operation = text(member(message, "operation"));
    shown.operations = texts(member(message, "operations"));
    read_object(shown, message);
    shown.arguments = texts(member(message, "arguments"));
    shown.changes = texts(member(message, "changes"));
    shown.asked_as = bytes(message, "asked_as");
    read_process(shown, member(message, "process"));
    shown.rule = text(member(message, "rule"));
    shown.reason = text(member(message, "reason"));
    for (const std::string& word : texts(member(message, "scopes")))
        if (const auto scope = parse_scope(word)) shown.scopes.push_back(*scope);
    shown.tree = bytes(message, "tree");
    shown.widest = bytes(message, "widest");
    shown.offers_writing = truth(member(message, "read_and_write"));
    shown.count = number(member(message, "count"));
    shown.again = truth(member(message, "again"));
    shown.any_program = truth(member(message, "any_program"));
    return shown;
}

/// `{"v":1,"type":TYPE,…}` with the members that `write` adds, and a newline.
template <class Write>
std::string message(std::string_view type, Write write) {
    return json_text([&](JsonWriter& line) {
               line.begin_object().member("v", 1).member("type", type);
               write(line);
               line.end_object();
           }) +
           "\n";
}

}  // namespace

bool QuestionView::offers(Scope scope) const { return std::ranges::find(scopes, scope) != scopes.end(); }

FromRun parse_from_run(std::string_view line, std::int64_t now_ns) {
    FromRun result;
    result.text = line;
    const json message = parse_object(line);
    if (number(member(message, "v")) != 1) return result;
    result.type = text(member(message, "type"));
    result.run = text(member(message, "run"));
    result.token_required = truth(member(message, "token_required"));
    result.id = number(member(message, "id"));
    result.applied = truth(member(message, "applied"));
    result.why = text(member(message, "why"));
    result.count = number(member(message, "count"));
    result.deadline_ms = static_cast<std::int64_t>(number(member(message, "deadline_ms")));
    if (result.type == "ask") {
        result.ask = shown_of(message);
        result.ask->message = line;
        result.ask->deadline_ns = now_ns + result.deadline_ms * 1'000'000;
    }
    return result;
}

std::string decision_line(const QuestionView& shown, std::string_view verdict, Scope scope,
                          std::string_view reason, const Width& width) {
    return message("decision", [&](JsonWriter& line) {
        line.member("id", shown.id)
            .member("key", shown.key)
            .member("verdict", verdict)
            .member("scope", name(scope));
        if (!width.tree.empty()) line.bytes("tree", width.tree, true);
        if (width.reads_and_writes) line.member("read_and_write", true);
        if (!reason.empty()) line.member("reason", reason);
    });
}

ProgramAnswer parse_program_answer(const std::string& given) {
    ProgramAnswer answer;
    const json message = parse_object(given);
    if (!message.is_object()) {
        answer.problem = given.empty() ? "it failed, or said nothing" : "its answer is no JSON object";
        return answer;
    }
    const std::string verdict = text(member(message, "verdict"));
    const auto scope = message.contains("scope") ? parse_scope(text(member(message, "scope"))) : Scope::once;
    if (verdict != "allow" && verdict != "deny" && verdict != "kill") {
        answer.problem = "its verdict is none of allow, deny and kill";
    } else if (!scope) {
        answer.problem = "its scope is none of once, object, tree and run";
    } else {
        answer.verdict = verdict;
        answer.scope = *scope;
        answer.reason = text(member(message, "reason")).substr(0, 1000);
    }
    return answer;
}

std::string auth_line(std::string_view token) {
    return message("auth", [&](JsonWriter& line) { line.member("token", token); });
}

std::string plain_line(std::string_view type, std::string_view number_name, std::uint64_t number) {
    return message(type, [&](JsonWriter& line) {
        if (!number_name.empty()) line.member(number_name, number);
    });
}

}  // namespace callgate::approval
