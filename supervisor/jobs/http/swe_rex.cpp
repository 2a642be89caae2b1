#include "supervisor/jobs/http/swe_rex.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/jobs/http/regular_program.hpp"
#include "supervisor/jobs/http/rex_program.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

using nlohmann::json;

namespace {

std::string text_of_json(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The report without the program, which is the same for all.
json report_of(const json& answer) {
    json report = json_read::member(answer, "report");
    if (report.is_object()) report.erase("command");
    return report;
}

/// Why there is no answer of the job's own.
RexAnswer without_answer(const json& answer) {
    const json report = report_of(answer);
    const std::string outcome = json_read::text(json_read::member(report, "outcome"));
    std::string error = json_read::text(json_read::member(answer, "error"));
    constexpr std::size_t max_error = 2000;
    if (error.size() > max_error) error.erase(0, error.size() - max_error);
    if (outcome == "timeout") return rex_exception("CommandTimeoutError", "a limit of time ended the job");
    std::string message = "the job gave no answer";
    if (!outcome.empty()) message += " (" + outcome + ")";
    if (answer.contains("output_truncated")) message += ": it is longer than --max-output lets it be";
    return rex_exception("SwerexException", error.empty() ? message : message + ": " + error);
}

}  // namespace

bool is_rex_path(std::string_view path) {
    constexpr std::string_view all[] = {"/create_session", "/run_in_session", "/close_session", "/execute",
                                        "/read_file",      "/write_file",     "/upload",        "/close"};
    return std::ranges::find(all, path) != std::end(all);
}

std::string rex_job(std::string_view path, std::string_view body, std::string_view type) {
    json job = {{"command", {"python3", "-c", with_regular(rex_program), path}}};
    isolate(job["command"]);
    if (path == "/upload") {
        Buffer encoded;
        append_base64(encoded, "Content-Type: " + std::string(type) + "\r\n\r\n" + std::string(body));
        job["stdin_base64"] = encoded.view();
    } else {
        job["stdin"] = body;
    }
    if (path == "/create_session") {
        job["stdin_open"] = true;
        job["stream"] = "only";
    }
    return job.dump();
}

RexRequest read_rex(std::string_view body) {
    const json request = parse_strictly(body);
    const json& session = json_read::member(request, "session");
    if (!session.is_null() && (!session.is_string() || session.get_ref<const std::string&>().size() > 256))
        throw InvalidRequest{"session: expected a text of at most 256 bytes"};
    return {request.dump() + '\n', session.is_null() ? "default" : session.get<std::string>(),
            request.contains("code") && !request.contains("command")};
}

RexAnswer rex_answer(std::string_view job_answer) {
    const json answer = json_read::parse_object(job_answer);
    json made = json_read::parse(json_read::text(json_read::member(answer, "output")));
    if (!made.is_object() || !answer.contains("exit_code") || answer.contains("output_truncated"))
        return without_answer(answer);
    const int status = made.contains("swerexception") ? 511 : 200;
    made["report"] = report_of(answer);
    return {status, text_of_json(made)};
}

RexAnswer rex_action_answer(std::string_view line) {
    const json made = json_read::parse(line);
    if (!made.is_object() || made.empty())
        return rex_exception("SwerexException", "the session's program wrote no answer");
    return {made.contains("swerexception") ? 511 : 200, text_of_json(made)};
}

RexAnswer rex_session_end(std::string_view job_answer) {
    const json answer = json_read::parse_object(job_answer);
    return answer.contains("exit_code") &&
                   json_read::text(json_read::member(report_of(answer), "outcome")) == "cancelled"
               ? rex_exception("SwerexException", "the session was closed")
               : without_answer(answer);
}

RexAnswer rex_closed(std::string_view job_answer) {
    json made = {{"session_type", "bash"}};
    const json report = report_of(json_read::parse_object(job_answer));
    if (report.is_object()) made["report"] = report;
    return {200, text_of_json(made)};
}

RexAnswer rex_exception(std::string_view name, std::string_view message) {
    const json made = {{"swerexception",
                        {{"message", message},
                         {"class_path", "swerex.exceptions." + std::string(name)},
                         {"traceback", ""},
                         {"extra_info", json::object()}}}};
    return {511, text_of_json(made)};
}

}  // namespace callgate::jobs::http
