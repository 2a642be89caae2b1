// The end of a run on record: no error of log or report is silent.
#include "supervisor/run/conclusion.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "agent/report_target.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using nlohmann::json;

namespace {

std::string text_of_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

UniqueFd open_for_writing(const char* path) { return UniqueFd(::open(path, O_WRONLY | O_CLOEXEC)); }

struct EndedRun {
    tests::TemporaryDirectory directory;
    std::string path = directory / "report.json";
    RunFacts facts;
    RunReport report;
    agent::ReportTarget target = agent::open_report(path);
    RunOutcome outcome;
    std::unique_ptr<audit::Log> log;

    EndedRun() {
        facts.run = "k3f9a2";
        facts.command = {"tool"};
        outcome.outcome = Outcome::exited;
        outcome.exit_status = 0;
        outcome.exit_code = 0;
    }
    Conclusion end() { return {.facts = facts, .report = report, .log = log.get(), .target = target}; }
    json written() { return json::parse(text_of_file(path)); }
};

}  // namespace

TEST_CASE("a run that went well leaves its record and its report, and says nothing") {
    EndedRun run;
    run.log = audit::Log::at_file(run.directory / "log", {.run = "k3f9a2"}).value();
    CHECK(conclude(run.end(), run.outcome).empty());
    CHECK(run.written()["outcome"] == "exited");
    CHECK(run.written()["error"].is_null());
    CHECK(run.written()["audit"]["records"] == 1);
    CHECK(text_of_file(run.directory / "log").find(R"("outcome":"exited")") != std::string::npos);
}

TEST_CASE("a log that cannot be written is named in the report and on stderr, also with --quiet") {
    EndedRun run;
    run.log = audit::Log::on_descriptor(open_for_writing("/dev/full"), {.run = "k3f9a2"}).value();
    Conclusion end = run.end();
    end.quiet = true;
    const std::string text = conclude(end, run.outcome);
    CHECK(run.outcome.log_error == ENOSPC);
    CHECK(text.starts_with("callgate: the audit log could not be written ("));
    CHECK(text.find("what could not be recorded was denied") != std::string::npos);
    CHECK(run.written()["error"].get<std::string>().starts_with("the audit log could not be written"));
    CHECK(run.outcome.exit_status == 123);
}

TEST_CASE("an error of the log during the run is named although the last record could be written") {
    EndedRun run;
    run.log = audit::Log::at_file(run.directory / "log", {.run = "k3f9a2"}).value();
    run.outcome.log_error = EFBIG;
    CHECK(conclude(run.end(), run.outcome).starts_with("callgate: the audit log could not be written (File"));
    CHECK_FALSE(run.written()["error"].is_null());
}

TEST_CASE("a report that cannot be written is named") {
    EndedRun run;
    run.target = {};
    run.target.descriptor = open_for_writing("/dev/full");
    CHECK(conclude(run.end(), run.outcome) ==
          "callgate: the report could not be written: No space left on device\n");
}

TEST_CASE("a command that could not be executed is named with its error") {
    EndedRun run;
    run.outcome = {};
    run.outcome.outcome = Outcome::exec_failed;
    run.outcome.error = "No such file or directory";
    CHECK(conclude(run.end(), run.outcome) == "callgate: cannot run tool: No such file or directory\n");
    CHECK(run.written()["outcome"] == "exec_failed");
}

TEST_CASE("a limit that ended the tree is named with its option, unless --quiet") {
    EndedRun run;
    run.facts.limits.wall = std::chrono::seconds(2);
    run.outcome.outcome = Outcome::timeout;
    run.outcome.duration_ms = 2003;
    CHECK(conclude(run.end(), run.outcome) == "callgate: ended by --timeout 2s, after 2003 ms\n");
    Conclusion end = run.end();
    end.quiet = true;
    CHECK(conclude(end, run.outcome).empty());
}

TEST_CASE("a signal before the command began is in the report, and on no line") {
    EndedRun run;
    run.outcome = {};
    run.outcome.outcome = Outcome::cancelled;
    run.outcome.error = "a signal ended the run before the command began";
    Conclusion end = run.end();
    end.cancelled_early = true;
    CHECK(conclude(end, run.outcome).empty());
    CHECK(run.written()["error"] == run.outcome.error);
}
