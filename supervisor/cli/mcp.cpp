// `callgate mcp`: a server of the Model Context Protocol on stdin and stdout, for an agent within a run.
//
// The agent starts it, so it is a tool of the run: confined, judged and recorded as every other process. It
// holds no right of its own. `explain` asks the supervisor over the channel (nested/channel.hpp), `denials`
// reads the list of denials, and `request_access` runs `callgate request`.
//
// Messages are lines of JSON-RPC 2.0 (modelcontextprotocol.io, 2025-06-18, transport stdio). One is handled
// at a time: a request for access is answered when the person has answered.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_read.hpp"
#include "base/process/spawn.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/in_run.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/nested/outer_run.hpp"

extern "C" char** environ;

namespace callgate::cli {

namespace {

using json_read::member;
using json_read::text;
using nlohmann::json;

constexpr std::size_t max_message = std::size_t{1} << 20U;
constexpr std::size_t max_told = std::size_t{64} << 10U;
constexpr std::size_t max_reason = 300;
constexpr std::array versions{"2025-06-18", "2025-03-26", "2024-11-05"};
constexpr int parse_error = -32700, invalid_request = -32600, no_such_method = -32601,
              invalid_params = -32602;

constexpr const char* instructions =
    "This program runs under callgate, which decides its file accesses and connections. When something is "
    "refused, do not look for a way around: read `denials`, look with `explain`, and ask the person with "
    "`request_access`, giving the reason.";

/// The result of a tool.
struct Told {
    std::string text;
    bool failed = false;
};

json object_schema(const char* operations, bool reason) {
    json properties{
        {"operation", {{"type", "string"}, {"enum", json::parse(operations)}}},
        {"object", {{"type", "string"}, {"description", "an absolute path, a program or HOST:PORT"}}}};
    json required{"operation", "object"};
    if (reason) {
        properties["arguments"] = {{"type", "array"},
                                   {"items", {{"type", "string"}}},
                                   {"description", "of the program, for execute: as it will be called"}};
        properties["reason"] = {{"type", "string"},
                                {"maxLength", max_reason},
                                {"description", "why it is needed, in one sentence: the person reads it"}};
        required.push_back("reason");
    }
    return {{"type", "object"}, {"properties", properties}, {"required", required}};
}

json described_tools() {
    return json::array(
        {{{"name", "request_access"},
          {"description",
           "Asks the person whether this run may read or write a file, execute a program, or connect to a "
           "host. It makes that very access, so `write` makes an empty file where there is none; `execute` "
           "executes nothing. The person may allow it once or for the whole run."},
          {"inputSchema", object_schema(R"(["read","write","execute","connect"])", true)}},
         {{"name", "explain"},
          {"description", "Says what the rules decide about an access, and why. Nobody is asked."},
          {"inputSchema",
           object_schema(
               R"(["read","write","create","modify","delete","metadata","execute","connect","bind"])",
               false)}},
         {{"name", "denials"},
          {"description",
           "The accesses that were refused in this run, the newest last, each with its reason."},
          {"inputSchema", {{"type", "object"}, {"properties", json::object()}}}}});
}

Told refused_so_far() {
    std::string list = list_of_denials(max_told);
    return {list.empty() ? "Nothing was refused." : std::move(list)};
}

Told verdict_of(const std::string& operation, const std::string& object) {
    Expected<nested::OuterRun> run = nested::OuterRun::find();
    if (!run) return {"callgate does not answer: " + run.error().text, true};
    const Expected<json> answer = run->ask({{"do", "explain"}, {"request", operation + ' ' + object}});
    if (!answer) return {answer.error().text, true};
    std::string told = text(member(*answer, "verdict")) + ": " + operation + ' ' + object;
    if (const std::string rule = text(member(*answer, "rule")); !rule.empty()) told += "\nrule: " + rule;
    if (const std::string reason = text(member(*answer, "reason")); !reason.empty())
        told += "\nreason: " + reason;
    return {std::move(told)};
}

Told request_access(const std::string& operation, const std::string& object, const json& arguments,
                    std::string reason) {
    reason.resize(std::min(reason.size(), max_reason));
    auto output = make_pipe();
    if (!output) return {"cannot start callgate request: " + output.error().message(), true};
    std::vector<std::string> environment;
    for (char** one = ::environ; *one != nullptr; ++one) environment.emplace_back(*one);
    const std::array<std::pair<int, int>, 2> descriptors{
        {{output->write.get(), STDOUT_FILENO}, {output->write.get(), STDERR_FILENO}}};
    std::vector<std::string> words{"callgate", "request", "--reason", reason, "--", operation, object};
    for (const std::string& one : json_read::texts(arguments)) words.push_back(one);
    const auto child = spawn(own_program, words, environment, descriptors, SignalState::current());
    if (!child) return {"cannot start callgate request: " + child.error().message(), true};
    output->write.reset();
    std::string said;
    std::array<char, 4096> piece{};
    for (;;) {
        const ssize_t got = ::read(output->read.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (said.size() < max_told) said.append(piece.data(), static_cast<std::size_t>(got));
    }
    return {std::move(said), reap(child->pid) != 0};
}

/// The result of "tools/call", or nothing for wrong parameters.
std::optional<Told> call_tool(const json& params) {
    const std::string name = text(member(params, "name"));
    if (name == "denials") return refused_so_far();
    const std::string operation = text(member(params, "arguments", "operation"));
    const std::string object = text(member(params, "arguments", "object"));
    if (operation.empty() || object.empty()) return std::nullopt;
    if (name == "explain") return verdict_of(operation, object);
    if (name != "request_access") return std::nullopt;
    const std::string reason = text(member(params, "arguments", "reason"));
    if (reason.empty()) return std::nullopt;
    return request_access(operation, object, member(params, "arguments", "arguments"), reason);
}

json error_of(const json& id, int code, const char* message) {
    return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}};
}

json answer_to(const json& id, const std::string& method, const json& params) {
    const auto result = [&id](json value) {
        return json{{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(value)}};
    };
    if (method == "ping") return result(json::object());
    if (method == "tools/list") return result({{"tools", described_tools()}});
    if (method == "initialize") {
        const std::string wanted = text(member(params, "protocolVersion"));
        const bool known = std::find(versions.begin(), versions.end(), wanted) != versions.end();
        return result({{"protocolVersion", known ? wanted : versions.front()},
                       {"capabilities", {{"tools", json::object()}}},
                       {"serverInfo", {{"name", "callgate"}, {"version", CALLGATE_VERSION}}},
                       {"instructions", instructions}});
    }
    if (method != "tools/call") return error_of(id, no_such_method, "this method is not known");
    const std::optional<Told> told = call_tool(params);
    if (!told) return error_of(id, invalid_params, "expected a tool of tools/list, with what it requires");
    return result(
        {{"content", json::array({{{"type", "text"}, {"text", told->text}}})}, {"isError", told->failed}});
}

/// The answer to one line; null: there is none.
json handle(const std::string& line) {
    const json message = json_read::parse_object(line);
    if (message.is_null()) return error_of(nullptr, parse_error, "expected one JSON object in a line");
    const json& id = member(message, "id");
    const std::string method = text(member(message, "method"));
    if (method.empty())
        return id.is_null() ? error_of(nullptr, invalid_request, "expected a method") : json();
    if (id.is_null()) return {};  // a notification
    return answer_to(id, method, member(message, "params"));
}

void answer(const json& value) {
    if (value.is_null()) return;
    print(value.dump(-1, ' ', false, json::error_handler_t::replace) + '\n');
}

}  // namespace

int mcp(const Arguments&) {
    require_run("mcp");
    std::string input;
    bool cut = false;  // the beginning of the message that is being read was too long to keep
    std::array<char, 16384> piece{};
    for (;;) {
        const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        input.append(piece.data(), static_cast<std::size_t>(got));
        for (std::size_t end = 0; (end = input.find('\n')) != std::string::npos; input.erase(0, end + 1))
            answer(std::exchange(cut, false)
                       ? error_of(nullptr, invalid_request, "a message has at most 1 MiB")
                       : handle(input.substr(0, end)));
        cut = cut || input.size() > max_message;
        if (cut) input.clear();
    }
}

}  // namespace callgate::cli
