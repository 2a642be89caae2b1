#include "supervisor/jobs/http/fusion_notebook.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/jobs/http/fusion_script.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

using nlohmann::json;

namespace {

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

}  // namespace

void tell_cells(json& made) {
    made["driver"] = made["run_result"];
    made.erase("run_result");
    made.erase("compile_result");
    const std::string encoded = json_read::text(json_read::member(made["files"], notebook_answer));
    made["files"].erase(notebook_answer);
    json cells = json_read::parse(decode_base64(encoded).value_or(""));
    if (!cells.is_array()) {
        if (made["status"] == "Success") made["status"] = "Failed";
        cells = json::array();
    }
    made["cells"] = std::move(cells);
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

}  // namespace callgate::jobs::http
