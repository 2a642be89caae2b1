#include "supervisor/jobs/http/e2b.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/number.hpp"
#include "supervisor/jobs/http/e2b_program.hpp"
#include "supervisor/jobs/http/regular_program.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

using nlohmann::json;

namespace {

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string in_base64(std::string_view bytes) {
    Buffer encoded;
    append_base64(encoded, bytes);
    return std::string(encoded.view());
}

/// A text without content is what protobuf leaves out. (json's own empty() is false for every text.)
bool is_empty_text(const json& value) {
    return value.is_string() && value.get_ref<const std::string&>().empty();
}

/// The report without the program, which is the same for all.
json short_report(const json& answer) {
    json report = json_read::member(answer, "report");
    if (report.is_object()) report.erase("command");
    return report;
}

json connect_error(std::string_view code, std::string_view why) { return {{"code", code}, {"message", why}}; }

/// Each member of `request` must be known. `what` is the message's name.
void check_members(const json& request, std::string_view what, std::initializer_list<std::string_view> all) {
    if (!request.is_object()) throw InvalidRequest{std::string(what) + ": expected an object"};
    for (const auto& [name, value] : request.items())
        if (std::ranges::find(all, name) == all.end())
            throw InvalidRequest{std::string(what) + " has no member " + json_string(name)};
}

/// Cells import as any program of their client's does, so their Python is not isolated.
json whole_process_job(std::string_view path, std::string_view input) {
    json command = {"python3", "-c", with_regular(e2b_program), path};
    if (path != "/contexts") isolate(command);
    return {{"command", command}, {"stdin_base64", in_base64(input)}};
}

/// Why a job has no answer of its own.
std::pair<std::string_view, std::string> why_none(const json& answer) {
    const std::string outcome = json_read::text(json_read::member(answer, "report", "outcome"));
    if (outcome == "timeout") return {"deadline_exceeded", "a limit of time ended the job"};
    if (outcome == "cancelled") return {"canceled", "the job was ended"};
    if (answer.contains("output_truncated"))
        return {"resource_exhausted", "the answer is longer than --max-output lets it be"};
    std::string error = json_read::text(json_read::member(answer, "error"));
    constexpr std::size_t max_error = 2000;
    if (error.size() > max_error) error.erase(0, error.size() - max_error);
    return {"internal", "the job gave no answer" + (error.empty() ? "" : ": " + error)};
}

constexpr std::array<std::pair<std::string_view, int>, 11> statuses = {{{"invalid_argument", 400},
                                                                        {"permission_denied", 403},
                                                                        {"not_found", 404},
                                                                        {"already_exists", 409},
                                                                        {"resource_exhausted", 429},
                                                                        {"canceled", 499},
                                                                        {"internal", 500},
                                                                        {"unimplemented", 501},
                                                                        {"unavailable", 503},
                                                                        {"deadline_exceeded", 504},
                                                                        {"unknown", 500}}};

}  // namespace

bool is_e2b_path(std::string_view path) {
    constexpr std::string_view all[] = {"/contexts", "/sandboxes",       "/v2/sandboxes",
                                        "/files",    "/process.Process", "/filesystem.Filesystem"};
    return path == "/health" || std::ranges::any_of(all, [path](std::string_view one) {
               return path.starts_with(one) && (path.size() == one.size() || path[one.size()] == '/');
           });
}

std::optional<std::string> not_offered(const Head& head, std::string_view path) {
    constexpr std::string_view all[] = {"GET /health",
                                        "GET /files",
                                        "POST /files",
                                        "POST /contexts",
                                        "GET /contexts",
                                        "POST /sandboxes",
                                        "POST /v2/sandboxes",
                                        "POST /process.Process/Start",
                                        "POST /process.Process/List",
                                        "POST /process.Process/SendSignal",
                                        "POST /process.Process/SendInput",
                                        "POST /process.Process/CloseStdin",
                                        "POST /filesystem.Filesystem/Stat",
                                        "POST /filesystem.Filesystem/ListDir",
                                        "POST /filesystem.Filesystem/MakeDir",
                                        "POST /filesystem.Filesystem/Move",
                                        "POST /filesystem.Filesystem/Remove"};
    const std::string asked = head.method + ' ' + std::string(path);
    const bool removes =
        (asked.starts_with("DELETE /contexts/") || asked.starts_with("DELETE /sandboxes/")) &&
        std::ranges::count(asked, '/') == 2;
    if (std::ranges::find(all, asked) == std::end(all) && !removes)
        return asked + " is not offered here (docs/http.md#e2b names what is)";
    const std::string_view type = head.field("content-type").value_or("");
    const std::string_view wanted =
        path == "/process.Process/Start" ? "application/connect+json" : "application/json";
    const bool message = path.starts_with("/process.") || path.starts_with("/filesystem.");
    if (message && type.substr(0, type.find(';')) != wanted)
        return "only the JSON form of the Connect protocol is spoken here: Content-Type: " +
               std::string(wanted);
    for (const auto& [name, value] : head.fields) {
        if (name == "authorization" && value.starts_with("Basic "))
            return "a user cannot be chosen here: all runs as the user that serves";
        if ((name == "content-encoding" && value != "identity") || name.starts_with("x-metadata-"))
            return "the header " + name + " is not offered here";
    }
    return std::nullopt;
}

RexAnswer e2b_error(std::string_view code, std::string_view why) {
    const auto* const known = std::ranges::find(statuses, code, &std::pair<std::string_view, int>::first);
    return {known == statuses.end() ? 500 : known->second, dumped(connect_error(code, why))};
}

bool has_stream(const Head& head) {
    return head.field("content-type").value_or("").starts_with("application/connect+");
}

RexAnswer stream_error(const RexAnswer& error) {
    return {200, envelope("{\"error\":" + error.body + '}', true), "application/connect+json"};
}

std::string envelope(std::string_view message, bool last) {
    std::string made(1, last ? '\2' : '\0');
    for (int shift = 24; shift >= 0; shift -= 8) made += static_cast<char>(message.size() >> shift & 0xFFU);
    return made.append(message);
}

E2bStart read_start(std::string_view body, std::string_view limit) {
    constexpr std::size_t prefix = 5;
    if (body.size() < prefix || body[0] != '\0' || body != envelope(body.substr(prefix)))
        throw InvalidRequest{"expected one message that is not compressed, with its length before it"};
    const json request = parse_strictly(body.substr(prefix));
    check_members(request, "the request", {"process", "stdin", "tag", "pty"});
    if (request.contains("pty")) throw Unoffered{"a terminal (pty) is not offered here"};
    const json& process = json_read::member(request, "process");
    check_members(process, "process", {"cmd", "args", "envs", "cwd"});
    json command = json::array({json_read::member(process, "cmd")});
    if (process.contains("args")) {
        if (!process["args"].is_array()) throw InvalidRequest{"args: expected a list of texts"};
        command.insert(command.end(), process["args"].begin(), process["args"].end());
    }
    json job = {{"command", command}, {"stream", "only"}};
    if (process.contains("envs")) job["env"] = process["envs"];
    if (process.contains("cwd") && !is_empty_text(process["cwd"])) job["cwd"] = process["cwd"];
    const json open = request.value("stdin", json(true));
    if (!open.is_boolean()) throw InvalidRequest{"stdin: expected true or false"};
    job["stdin_open"] = open;
    if (!limit.empty()) {
        const auto time = parse_number<std::uint32_t>(limit);
        if (!time || *time == 0) throw InvalidRequest{"Connect-Timeout-Ms: expected milliseconds"};
        job["timeout"] = std::to_string(*time) + "ms";
    }
    constexpr std::size_t max_config = 16384, max_name = 4096;  // it is kept while the process runs
    std::string config = dumped(process);
    if (config.size() > max_config)
        config = dumped({{"cmd", json_read::text(json_read::member(process, "cmd")).substr(0, max_name)}});
    return {dumped(job), config};
}

std::string start_event(std::uint64_t process) {
    return envelope("{\"event\":{\"start\":{\"pid\":" + std::to_string(process) + "}}}");
}

std::string output_event(std::string_view output, std::string_view piece) {
    const json told = json_read::parse_object(piece);
    const json& encoded = json_read::member(told, "text_base64");
    const std::string bytes = encoded.is_string()
                                  ? encoded.get<std::string>()
                                  : in_base64(json_read::text(json_read::member(told, "text")));
    return envelope(std::string("{\"event\":{\"data\":{\"") + (output == "error" ? "stderr" : "stdout") +
                    "\":\"" + bytes + "\"}}}");
}

std::string end_events(std::string_view job_answer) {
    const json answer = json_read::parse_object(job_answer);
    const json report = short_report(answer);
    const std::string outcome = json_read::text(json_read::member(report, "outcome"));
    if (!answer.contains("exit_code") || outcome == "timeout") {
        const auto [code, why] = why_none(answer);
        const std::string error = json_read::text(json_read::member(answer, "error"));
        json last = {{"error", answer.contains("exit_code") ? connect_error(code, why)
                                                            : connect_error("internal", error)}};
        if (report.is_object()) last["report"] = report;
        return envelope(dumped(last), true);
    }
    const json& status = answer["exit_code"];
    json end = {{"exitCode", status}, {"exited", true}, {"status", "exit status " + status.dump()}};
    if (outcome == "cancelled") end["error"] = "the process was ended by a request";
    if (report.is_object()) end["report"] = report;
    return envelope(dumped({{"event", {{"end", end}}}})) + envelope("{}", true);
}

E2bProcessRequest read_process_request(std::string_view path, std::string_view body) {
    const json request = parse_strictly(body);
    check_members(request, "the request", {"process", "input", "signal"});
    const json& process = json_read::member(request, "process");
    check_members(process, "process", {"pid", "tag"});
    if (process.contains("tag")) throw Unoffered{"a process is named by its pid here, not by its tag"};
    const json& number = json_read::member(process, "pid");
    if (!number.is_number_unsigned()) throw InvalidRequest{"pid: expected a number"};
    E2bProcessRequest made{number.get<std::uint64_t>(), {}, false};
    if (path.ends_with("/SendSignal")) {
        const json& signal = json_read::member(request, "signal");
        made.kills = signal == "SIGNAL_SIGKILL" || signal == 9;
        if (!made.kills && signal != "SIGNAL_SIGTERM" && signal != 15)
            throw InvalidRequest{"signal: expected SIGNAL_SIGKILL or SIGNAL_SIGTERM"};
    }
    if (path.ends_with("/SendInput")) {
        const json& input = json_read::member(request, "input");
        check_members(input, "input", {"stdin", "pty"});
        if (input.contains("pty")) throw Unoffered{"a terminal (pty) is not offered here"};
        const std::string encoded = json_read::text(json_read::member(input, "stdin"));
        const auto bytes = decode_base64(encoded);
        if (!bytes || !json_read::member(input, "stdin").is_string())
            throw InvalidRequest{"stdin: expected base64"};
        made.bytes = in_base64(*bytes);
    }
    return made;
}

std::string file_job(const Head& head, std::string_view path, std::string_view body) {
    const std::size_t query = head.target.find('?');
    const json about = {{"method", head.method},
                        {"query", query == std::string::npos ? "" : head.target.substr(query + 1)},
                        {"type", head.field("content-type").value_or("")}};
    if (path != "/files") static_cast<void>(parse_strictly(body));
    return dumped(whole_process_job(path, dumped(about) + '\n' + std::string(body)));
}

RexAnswer file_answer(std::string_view job_answer) {
    const json answer = json_read::parse_object(job_answer);
    json told = json_read::parse_object(json_read::text(json_read::member(answer, "output")));
    const std::uint64_t status = json_read::number(json_read::member(told, "status"));
    if (status < 200 || status > 599 || answer.contains("output_truncated")) {
        const auto [code, why] = why_none(answer);
        RexAnswer made = e2b_error(code, why);
        json with = json::parse(made.body);
        with["report"] = short_report(answer);
        made.body = dumped(with);
        return made;
    }
    if (const auto bytes = decode_base64(json_read::text(json_read::member(told, "base64")));
        bytes && told.contains("base64"))
        return {static_cast<int>(status), *bytes, "application/octet-stream"};
    json made = json_read::member(told, "answer");
    if (made.is_object()) made["report"] = short_report(answer);
    return {static_cast<int>(status), dumped(made)};
}

std::string context_directory(std::string_view body) {
    const json request = parse_strictly(body);
    check_members(request, "the request", {"language", "cwd"});
    const json language = request.value("language", json());
    if (!language.is_null() && language != "python" && language != "python3")
        throw Unoffered{"only python has contexts here; run other languages as commands"};
    const json directory = request.value("cwd", json());
    if (directory.is_null()) return ".";
    if (!directory.is_string() || is_empty_text(directory)) throw InvalidRequest{"cwd: expected a directory"};
    return directory.get<std::string>();
}

std::string context_job(std::string_view directory) {
    json job = whole_process_job("/contexts", dumped({{"cwd", directory}}) + '\n');
    job["stdin_open"] = true;
    job["stream"] = "only";
    return dumped(job);
}

E2bCell read_cell(std::string_view body, std::uint64_t number) {
    const json request = parse_strictly(body);
    check_members(request, "the request", {"code", "context_id", "language", "env_vars"});
    const json language = request.value("language", json()), context = request.value("context_id", json());
    json variables = request.value("env_vars", json());
    if (variables.is_null()) variables = json::object();
    if (!request["code"].is_string()) throw InvalidRequest{"code: expected a text"};
    if (!variables.is_object()) throw InvalidRequest{"env_vars: expected an object"};
    if (!context.is_null() && !context.is_string()) throw InvalidRequest{"context_id: expected a text"};
    if (!language.is_null() && language != "python" && language != "python3")
        throw Unoffered{"only python has contexts here; run other languages as commands"};
    const json line = {{"id", number}, {"code", request["code"]}, {"env_vars", variables}};
    return {dumped(line) + '\n', json_read::text(context)};
}

RexAnswer context_answer(std::string_view line, std::string_view id) {
    json told = json_read::parse_object(line);
    const std::uint64_t status = json_read::number(json_read::member(told, "status"));
    if (status >= 400 && status <= 599) return {static_cast<int>(status), dumped(told["answer"])};
    if (!told.is_object()) return e2b_error("internal", "the context's program wrote no answer");
    told["id"] = id;
    return {200, dumped(told)};
}

E2bLine cell_line(std::string_view line) {
    const json told = json_read::parse_object(line);
    if (!told.contains("type")) return {};
    return {dumped(told) + '\n', told["type"] == "end_of_execution"};
}

std::string cell_over(std::string_view why) {
    return dumped({{"type", "error"}, {"name", "ContextEnded"}, {"value", why}, {"traceback", ""}}) +
           "\n{\"type\":\"end_of_execution\"}\n";
}

RexAnswer context_end(std::string_view job_answer) {
    const json answer = json_read::parse_object(job_answer);
    RexAnswer made = e2b_error("internal", "the context has ended: " + why_none(answer).second);
    json with = json::parse(made.body);
    with["report"] = short_report(answer);
    made.body = dumped(with);
    return made;
}

RexAnswer context_removed(std::string_view job_answer) {
    return {200, dumped({{"report", short_report(json_read::parse_object(job_answer))}})};
}

RexAnswer made_sandbox(std::string_view body, std::string_view id) {
    const json request = parse_strictly(body);
    constexpr std::string_view known[] = {"templateID", "timeout", "metadata", "secure"};
    for (const auto& [name, value] : request.items()) {
        const bool nothing = value.is_null() || value == false || value == json::object();
        if (!nothing && std::ranges::find(known, name) == std::end(known))
            throw Unoffered{name + " is not offered here: the service's command line says what may be done"};
    }
    return {201, dumped({{"sandboxID", id},
                         {"templateID", json_read::text(json_read::member(request, "templateID"))},
                         {"clientID", "callgate"},
                         {"envdVersion", "0.5.7"}})};
}

}  // namespace callgate::jobs::http
