#include "supervisor/jobs/http/sandbox_fusion.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/number.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

namespace {

using nlohmann::json;

struct Language {
    std::string_view name, program, source, compile, run;
};

/// `program` must be there; the commands are words of the shell.
constexpr Language all[] = {
    {"python", "python3", "main.py", "", "python3 main.py"},
    {"pytest", "pytest", "main.py", "", "pytest main.py"},
    {"bash", "bash", "main.sh", "", "bash main.sh"},
    {"nodejs", "node", "main.js", "", "node main.js"},
    {"typescript", "tsx", "main.ts", "", "tsx main.ts"},
    {"cpp", "g++", "main.cpp", "g++ -std=c++17 main.cpp -o test -lpthread", "./test"},
    {"rust", "rustc", "main.rs", "rustc main.rs -o test", "./test"},
    {"go", "go", "main.go", "go build -o out main.go", "./out"},
    {"java", "javac", "Main.java", "javac -cp \".:*\" Main.java", "java -cp \".:*\" -ea Main"},
    {"D_ut", "dmd", "main.d", "dmd main.d -unittest -of=test", "./test"},
    {"swift", "swiftc", "main.swift", "swiftc main.swift -o test.out", "./test.out"},
    {"php", "php", "main.php", "", "php -f main.php"},
    {"lua", "lua", "main.lua", "", "lua main.lua"},
    {"R", "Rscript", "main.R", "", "Rscript main.R"},
    {"perl", "perl", "main.pl", "", "perl main.pl"},
    {"ruby", "ruby", "main.rb", "", "ruby main.rb"},
    {"julia", "julia", "main.jl", "", "julia main.jl"},
    {"racket", "racket", "main.rkt", "", "racket main.rkt"},
};

/// The member, or the default where it is missing or null.
json given(const json& request, const char* name, json otherwise) {
    const json& value = json_read::member(request, name);
    return value.is_null() ? otherwise : value;
}

/// Runs the cells of .cells, and writes what became of each into .answer.
constexpr std::string_view notebook_program = R"(
import json, os, signal
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config
with open(".cells") as file:
    asked = json.load(file)
os.remove(".cells")
shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
def late(*_):
    raise TimeoutError("the cell took longer than cell_timeout")
signal.signal(signal.SIGALRM, late)
def show(value):
    if value is not None and not shell.displayhook.quiet():
        shell.user_ns["_"] = value
        shell.display_pub.publish(*shell.display_formatter.format(value))
shell.display_trap.hook = show
answers = []
for cell in asked["cells"]:
    errors = []
    shell._showtraceback = lambda kind, value, lines: errors.append(
        {"ename": kind.__name__, "evalue": str(value), "traceback": list(lines)})
    with capture_output() as told:
        signal.setitimer(signal.ITIMER_REAL, asked["cell_timeout"])
        try:
            shell.run_cell(cell, store_history=True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    answers.append({"stdout": told.stdout, "stderr": told.stderr,
                    "display": [one.data for one in told.outputs], "error": errors})
with open(".answer", "w") as file:
    json.dump(answers, file)
)";
constexpr const char* notebook_answer = ".answer";

std::string text_of(const json& request, const char* name) {
    const json value = given(request, name, "");
    if (!value.is_string()) throw InvalidRequest{std::string(name) + ": expected a text"};
    std::string text = value.get<std::string>();
    if (text.find('\0') != std::string::npos)
        throw InvalidRequest{std::string(name) + ": holds a NUL character (U+0000)"};
    return text;
}

std::int64_t milliseconds_of(const json& request, const char* name, int usual = 10) {
    constexpr double longest = 86'400;
    const json value = given(request, name, usual);
    if (!value.is_number() || !(value.get<double>() > 0 && value.get<double>() <= longest))
        throw InvalidRequest{std::string(name) + ": expected seconds above 0, at most 86400"};
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(value.get<double>() * 1000));
}

/// The text as one word of a shell, whatever bytes it has.
std::string word(std::string_view text) {
    std::string made = "'";
    for (const char one : text) one == '\'' ? made += "'\\''" : made += one;
    return made + '\'';
}

/// A path that no program takes for an option.
std::string path_word(const std::string& name) { return word(name.starts_with('/') ? name : "./" + name); }

std::string in_seconds(std::int64_t ms) {
    std::string rest = std::to_string(ms % 1000);
    return std::to_string(ms / 1000) + '.' + std::string(3 - rest.size(), '0') + rest;
}

/// Commands that write the request's files.
std::string files_written(const json& request) {
    std::string made;
    const json files = given(request, "files", json::object());
    if (!files.is_object()) throw InvalidRequest{"files: expected an object of names and base64"};
    for (const auto& [name, content] : files.items()) {
        if (content.is_null()) continue;
        const auto bytes =
            content.is_string() ? decode_base64(content.get_ref<const std::string&>()) : std::nullopt;
        if (!bytes || name.empty() || name.find('\0') != std::string::npos)
            throw InvalidRequest{"files: expected base64 for " + json_string(name)};
        Buffer encoded;
        append_base64(encoded, *bytes);
        if (const std::size_t slash = name.rfind('/'); slash != std::string::npos && slash > 0)
            made += "mkdir -p " + path_word(name.substr(0, slash)) + " || exit 125\n";
        made +=
            "base64 -d > " + path_word(name) + " <<'.' || exit 125\n" + std::string(encoded.view()) + "\n.\n";
    }
    return made;
}

std::vector<std::string> fetched(const json& request) {
    std::vector<std::string> names;
    const json wanted = given(request, "fetch_files", json::array());
    if (!wanted.is_array()) throw InvalidRequest{"fetch_files: expected a list of paths"};
    for (const json& one : wanted) {
        if (!one.is_string() || one.get<std::string>().find('\0') != std::string::npos)
            throw InvalidRequest{"fetch_files: expected a list of paths"};
        names.push_back(one.get<std::string>());
    }
    return names;
}

/// Prints "MARK STATUS MILLISECONDS STDOUT STDERR", and goes on where the compiler succeeded.
std::string compilation(const Language& language, const FusionJob& made) {
    return "began=$(date +%s%3N)\ntimeout -s KILL " + in_seconds(made.compile_ms) + ' ' +
           std::string(language.compile) + " > .compiled 2> .errors < /dev/null\nstatus=$?\nprintf '" +
           made.mark +
           " %s %s %s %s\\n' \"$status\" $(($(date +%s%3N) - began)) \"$(base64 -w0 .compiled)\" "
           "\"$(base64 -w0 .errors)\"\nrm -f .compiled .errors\n[ \"$status\" = 0 ] || exit \"$status\"\n";
}

/// Prints a mark, and each file that is there as "NUMBER CONTENT".
std::string fetching(const FusionJob& made) {
    std::string text = "status=$?\nprintf '\\n" + made.mark + "\\n'\n";
    for (std::size_t number = 0; number < made.fetched.size(); ++number) {
        const std::string path = path_word(made.fetched[number]);
        text += "[ ! -f " + path + " ] || { printf '" + std::to_string(number) + " '; base64 -w0 < " + path +
                "; echo; }\n";
    }
    return text + "exit \"$status\"\n";
}

/// The job's own limit is so much beyond those of timeout(1).
constexpr std::int64_t surplus_ms = 10'000;

constexpr std::string_view entering = "cd \"${TMPDIR:?}\" || exit 125\n";

/// A program that is alone in its job ends by the job's own limit. Else timeout(1) ends it, and the job's
/// limit holds what timeout(1) does not reach.
FusionJob job_of(const json& request, const Language& language, std::string mark) {
    FusionJob made;
    made.compiled = !language.compile.empty();
    made.compile_ms = made.compiled ? milliseconds_of(request, "compile_timeout") : 0;
    made.run_ms = milliseconds_of(request, "run_timeout");
    made.fetched = fetched(request);
    const bool alone = !made.compiled && made.fetched.empty();
    if (!alone) made.mark = std::move(mark);
    std::string code = text_of(request, "code");
    if (language.name == "php" && code.find("<?php") == std::string::npos) code.insert(0, "<?php\n");
    std::string script = std::string(entering) + files_written(request) + "printf %s " + word(code) + " > " +
                         std::string(language.source) + " || exit 125\n";
    if (made.compiled) script += compilation(language, made);
    script += (alone ? "exec " : "timeout -s KILL " + in_seconds(made.run_ms) + ' ') +
              std::string(language.run) + '\n';
    if (!made.fetched.empty()) script += fetching(made);
    json job = {
        {"language", "sh"},
        {"code", std::move(script)},
        {"timeout", std::to_string(alone ? made.run_ms : made.compile_ms + made.run_ms + surplus_ms) + "ms"}};
    const json input = given(request, "stdin", "");
    if (!input.is_string()) throw InvalidRequest{"stdin: expected a text"};
    job["stdin"] = input;
    const json memory = given(request, "memory_limit_MB", -1);
    if (!memory.is_number()) throw InvalidRequest{"memory_limit_MB: expected a number"};
    if (memory.get<double>() >= 1)
        job["memory"] = std::to_string(static_cast<std::int64_t>(std::min(memory.get<double>(), 1e9))) + "M";
    made.job = job.dump();
    return made;
}

FusionJob notebook_of(const json& request, std::string mark) {
    FusionJob made;
    made.notebook = true;
    made.mark = std::move(mark);
    made.run_ms = milliseconds_of(request, "total_timeout", 45);
    made.fetched = fetched(request);
    made.fetched.emplace_back(notebook_answer);
    const json cells = given(request, "cells", nullptr), limit = given(request, "cell_timeout", 0);
    if (!cells.is_array() || !std::ranges::all_of(cells, [](const json& one) { return one.is_string(); }))
        throw InvalidRequest{"cells: expected a list of texts"};
    if (!limit.is_number() || !(limit.get<double>() >= 0 && limit.get<double>() <= 86'400))
        throw InvalidRequest{"cell_timeout: expected seconds, at most 86400, or 0 for none"};
    if (given(request, "kernel", "python3") != "python3")
        throw InvalidRequest{"kernel: only python3 is known"};
    const json asked = {{"cells", cells}, {"cell_timeout", limit}};
    const std::string script =
        std::string(entering) + files_written(request) + "printf %s " + word(asked.dump()) +
        " > .cells || exit 125\nexport IPYTHONDIR=\"$PWD/.ipython\"\ntimeout -s KILL " +
        in_seconds(made.run_ms) + " python3 -c " + word(notebook_program) + '\n' + fetching(made);
    made.job = json{{"language", "sh"},
                    {"code", script},
                    {"timeout", std::to_string(made.run_ms + surplus_ms) + "ms"}}
                   .dump();
    return made;
}

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

/// The response to a notebook. A cell that fails is a cell with errors; the notebook goes on.
void tell_cells(json& made) {
    made["driver"] = made["run_result"];
    made.erase("run_result");
    made.erase("compile_result");
    const std::string encoded = json_read::text(json_read::member(made["files"], notebook_answer));
    made["files"].erase(notebook_answer);
    json cells = json::parse(decode_base64(encoded).value_or(""), nullptr, false);
    if (!cells.is_array()) {
        if (made["status"] == "Success") made["status"] = "Failed";
        cells = json::array();
    }
    made["cells"] = std::move(cells);
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

std::vector<std::string_view> fusion_programs() {
    std::vector<std::string_view> programs{"ipython"};
    for (const Language& language : all) programs.push_back(language.program);
    return programs;
}

std::variant<Refused, FusionJob> fusion_job(std::string_view body, std::string mark,
                                            bool (*has)(std::string_view program)) {
    try {
        const json request = parse_strictly(body);
        if (!request.contains("code") || !request.contains("language"))
            throw InvalidRequest{"code and language are needed"};
        const std::string name = text_of(request, "language");
        const auto* const language = std::ranges::find(all, name, &Language::name);
        if (language == std::end(all))
            return Refused{501, "the language " + json_string(name) + " is not offered here"};
        if (!has(language->program))
            return Refused{501, "the language " + name + " needs the program " +
                                    std::string(language->program) + ", which this machine does not have"};
        return job_of(request, *language, std::move(mark));
    } catch (const InvalidRequest& wrong) {
        return Refused{400, wrong.why};
    }
}

std::variant<Refused, FusionJob> notebook_job(std::string_view body, std::string mark,
                                              bool (*has)(std::string_view program)) {
    if (!has("ipython"))
        return Refused{501, "notebooks need the program ipython, which this machine does not have"};
    try {
        return notebook_of(parse_strictly(body), std::move(mark));
    } catch (const InvalidRequest& wrong) {
        return Refused{400, wrong.why};
    }
}

std::string fusion_answer(const FusionJob& job, std::string_view answer) {
    json made = response(job, json_read::parse_object(answer));
    if (job.notebook) tell_cells(made);
    return made.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace callgate::jobs::http
