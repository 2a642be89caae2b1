#include "supervisor/approval/shown.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "supervisor/audit/escape.hpp"

namespace callgate::approval {

namespace {

using nlohmann::json;

const json& at(const json& value, const char* name) {
    static const json null;
    const auto found = value.find(name);
    return value.is_object() && found != value.end() ? *found : null;
}

std::string text(const json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

std::uint64_t number(const json& value) {
    return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

bool truth(const json& value) { return value.is_boolean() && value.get<bool>(); }

std::vector<std::string> texts(const json& value) {
    std::vector<std::string> all;
    if (!value.is_array()) return all;
    for (const json& one : value) all.push_back(text(one));
    return all;
}

std::string from_base64(const std::string& encoded) {
    std::string bytes(encoded.size() / 4 * 3 + 3, '\0');
    const int got = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                      reinterpret_cast<const unsigned char*>(encoded.data()),
                                      static_cast<int>(encoded.size()));
    if (got < 0) return {};
    const auto padding = static_cast<std::size_t>(std::count(encoded.begin(), encoded.end(), '='));
    bytes.resize(static_cast<std::size_t>(got) - std::min(padding, static_cast<std::size_t>(got)));
    return bytes;
}

/// `KEY`, or where it is not UTF-8 the bytes of `KEY_b64`.
std::string bytes(const json& value, const std::string& key) {
    const std::string encoded = text(at(value, (key + "_b64").c_str()));
    return encoded.empty() ? text(at(value, key.c_str())) : from_base64(encoded);
}

void read_object(Shown& shown, const json& message) {
    const json& object = at(message, "object");
    shown.kind = text(at(object, "kind"));
    if (shown.kind == "internet") {
        shown.object = text(at(object, "address"));
    } else {
        shown.object = bytes(object, shown.kind == "file" ? "path" : "name");
    }
    shown.host = text(at(object, "host"));
    shown.exists = truth(at(object, "exists"));
    shown.directory = truth(at(object, "directory"));
    if (at(object, "size").is_number_unsigned()) shown.size = number(at(object, "size"));
    shown.second_path = bytes(message, "second_path");
}

void read_process(Shown& shown, const json& process) {
    shown.process = static_cast<pid_t>(number(at(process, "pid")));
    shown.program = text(at(process, "program"));
    shown.argv = texts(at(process, "argv"));
    if (!at(process, "ancestors").is_array()) return;
    for (const json& one : at(process, "ancestors"))
        shown.ancestors.push_back({static_cast<pid_t>(number(at(one, "pid"))), text(at(one, "program"))});
}

Shown shown_of(const json& message) {
    Shown shown;
    shown.id = number(at(message, "id"));
    shown.key = text(at(message, "key"));
    shown.operation = text(at(message, "operation"));
    shown.operations = texts(at(message, "operations"));
    read_object(shown, message);
    shown.arguments = texts(at(message, "arguments"));
    shown.asked_as = bytes(message, "asked_as");
    read_process(shown, at(message, "process"));
    shown.rule = text(at(message, "rule"));
    shown.reason = text(at(message, "reason"));
    for (const std::string& word : texts(at(message, "scopes")))
        if (const auto scope = parse_scope(word)) shown.scopes.push_back(*scope);
    shown.tree = bytes(message, "tree");
    shown.count = number(at(message, "count"));
    return shown;
}

std::string json_text(std::string_view text) {
    audit::Buffer out(text.size() + 16);
    audit::append_json_string(out, text);
    return std::string(out.view());
}

}  // namespace

bool Shown::offers(Scope scope) const { return std::ranges::find(scopes, scope) != scopes.end(); }

FromRun parse_from_run(std::string_view line, std::int64_t now_ns) {
    FromRun result;
    result.text = line;
    const json message = json::parse(line, nullptr, false);
    if (message.is_discarded() || !message.is_object() || number(at(message, "v")) != 1) return result;
    result.type = text(at(message, "type"));
    result.run = text(at(message, "run"));
    result.token_required = truth(at(message, "token_required"));
    result.id = number(at(message, "id"));
    result.applied = truth(at(message, "applied"));
    result.why = text(at(message, "why"));
    result.count = number(at(message, "count"));
    result.deadline_ms = static_cast<std::int64_t>(number(at(message, "deadline_ms")));
    if (result.type == "ask") {
        result.ask = shown_of(message);
        result.ask->message = line;
        result.ask->deadline_ns = now_ns + result.deadline_ms * 1'000'000;
    }
    return result;
}

std::string decision_line(const Shown& shown, std::string_view verdict, Scope scope,
                          std::string_view reason) {
    std::string line = R"({"v":1,"type":"decision","id":)" + std::to_string(shown.id) +
                       ",\"key\":" + json_text(shown.key) + ",\"verdict\":" + json_text(verdict) +
                       ",\"scope\":" + json_text(name(scope));
    if (!reason.empty()) line += ",\"reason\":" + json_text(reason);
    return line + "}\n";
}

ProgramAnswer parse_program_answer(const std::string& given) {
    ProgramAnswer answer;
    const json message = json::parse(given, nullptr, false);
    if (message.is_discarded() || !message.is_object()) {
        answer.problem = given.empty() ? "it failed, or said nothing" : "its answer is no JSON object";
        return answer;
    }
    const std::string verdict = text(at(message, "verdict"));
    const auto scope = message.contains("scope") ? parse_scope(text(at(message, "scope"))) : Scope::once;
    if (verdict != "allow" && verdict != "deny" && verdict != "kill") {
        answer.problem = "its verdict is none of allow, deny and kill";
    } else if (!scope) {
        answer.problem = "its scope is none of once, object and tree";
    } else {
        answer.verdict = verdict;
        answer.scope = *scope;
        answer.reason = text(at(message, "reason")).substr(0, 1000);
    }
    return answer;
}

std::string auth_line(std::string_view token) {
    return R"({"v":1,"type":"auth","token":)" + json_text(token) + "}\n";
}

std::string plain_line(std::string_view type, std::string_view number_name, std::uint64_t number) {
    std::string line = R"({"v":1,"type":)" + json_text(type);
    if (!number_name.empty()) line += ',' + json_text(number_name) + ':' + std::to_string(number);
    return line + "}\n";
}

}  // namespace callgate::approval
