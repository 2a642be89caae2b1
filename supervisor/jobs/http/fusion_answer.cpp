#include "supervisor/jobs/http/sandbox_fusion.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/number.hpp"
#include "supervisor/jobs/http/fusion_notebook.hpp"

namespace callgate::jobs::http {

namespace {

using nlohmann::json;

json result(std::string_view status, std::int64_t ms, const json& code, std::string_view out,
            std::string_view error) {
    return {{"status", status},
            {"execution_time", static_cast<double>(ms) / 1000},
            {"return_code", code},
            {"stdout", out},
            {"stderr", error}};
}

/// U+FFFD stands for what is not UTF-8.
std::string as_text(std::string_view encoded) {
    const json text = decode_base64(encoded).value_or("");
    return json::parse(text.dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

/// The output of the program, and what the script printed around it.
struct Parts {
    std::string output;
    json compile_result = nullptr, files = json::object();
    bool compiled = true;  // without an error
    std::int64_t compile_ms = 0;
    bool cut = false;  // files were asked for, and nothing tells of them
};

/// Splits at the first blank.
std::string_view next(std::string_view& text) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    return one;
}

void take_compilation(const FusionJob& job, Parts& parts) {
    const std::size_t end = parts.output.find('\n');
    if (end == std::string::npos || !parts.output.starts_with(job.mark + ' ')) {
        parts.compiled = false;
        return;
    }
    const std::string line = parts.output.substr(0, end);
    parts.output.erase(0, end + 1);
    std::string_view rest = line;
    next(rest);
    const int status = parse_number<int>(next(rest)).value_or(125);
    parts.compile_ms = parse_number<std::int64_t>(next(rest)).value_or(0);
    const std::string out = as_text(next(rest)), error = as_text(rest);
    const bool late = status == 137 && parts.compile_ms >= job.compile_ms;
    parts.compile_result = result(late ? "TimeLimitExceeded" : "Finished", parts.compile_ms,
                                  late ? json(nullptr) : json(status), out, error);
    parts.compiled = status == 0;
}

void take_files(const FusionJob& job, Parts& parts) {
    const std::string mark = '\n' + job.mark + '\n';
    const std::size_t at = parts.output.rfind(mark);
    parts.cut = at == std::string::npos;
    if (parts.cut) return;
    const std::string added = parts.output.substr(at + mark.size());
    parts.output.resize(at);
    for (std::string_view rest = added; !rest.empty();) {
        std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        const auto number = parse_number<std::size_t>(next(line));
        if (number && *number < job.fetched.size()) parts.files[job.fetched[*number]] = line;
    }
}

json response(const FusionJob& job, const json& answer) {
    namespace read = json_read;
    json made = {{"status", "SandboxError"},     {"message", ""},
                 {"compile_result", nullptr},    {"run_result", nullptr},
                 {"executor_pod_name", nullptr}, {"files", json::object()}};
    const json& report = read::member(answer, "report");
    if (report.is_object()) made["report"] = report;
    if (!answer.contains("exit_code")) {
        made["message"] = read::text(read::member(answer, "error"));
        return made;
    }
    Parts parts;
    parts.output = read::text(read::member(answer, "output"));
    const std::string error = read::text(read::member(answer, "error"));
    const bool over = read::text(read::member(report, "outcome")) == "timeout";
    const auto ms = static_cast<std::int64_t>(read::number(read::member(report, "duration_ms")));
    if (job.compiled) take_compilation(job, parts);
    made["compile_result"] = parts.compile_result;
    if (job.compiled && !parts.compiled) {
        if (!parts.compile_result.is_null() || over) {
            made["status"] = "Failed";
            if (parts.compile_result.is_null())
                made["compile_result"] = result("TimeLimitExceeded", ms, nullptr, "", error);
        } else {
            made["message"] = "the compiler could not be run: " + error;
        }
        return made;
    }
    if (!job.fetched.empty()) take_files(job, parts);
    if (parts.cut) made["message"] = "no file was fetched: the output was cut, or the run was ended";
    made["files"] = std::move(parts.files);
    const std::uint64_t status = read::number(answer["exit_code"]);
    const std::int64_t took = std::max<std::int64_t>(0, ms - parts.compile_ms);
    const bool late = over || (!job.mark.empty() && status == 137 && took >= job.run_ms);
    made["run_result"] = result(late ? "TimeLimitExceeded" : "Finished", took,
                                late ? json(nullptr) : json(status), parts.output, error);
    made["status"] = !late && status == 0 ? "Success" : "Failed";
    return made;
}

}  // namespace

std::string fusion_answer(const FusionJob& job, std::string_view answer) {
    json made = response(job, json_read::parse_object(answer));
    if (job.notebook) tell_cells(made);
    return made.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace callgate::jobs::http
