#include "supervisor/audit/verbs/show.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "rules/model/rule.hpp"
#include "supervisor/audit/verbs/selection.hpp"
#include "supervisor/audit/verbs/table.hpp"
#include "supervisor/audit/write/log.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::audit;
namespace fs = std::filesystem;

namespace {

using callgate::tests::TemporaryDirectory;

struct Said {
    int status = -1;
    std::string out, errors;
};

template <typename Verb, typename Options>
Said say(Verb verb, const Options& options) {
    std::ostringstream out, errors;
    Said said;
    said.status = verb(out, errors, options);
    said.out = out.str();
    said.errors = errors.str();
    return said;
}

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
}

Decision decision(const rules::Rule& rule, std::string_view path,
                  std::string_view program = "/usr/bin/python3") {
    Decision one;
    one.call = "openat";
    one.caller = {.pid = 42, .parent = 1, .start_time = 1, .executable = program, .uid = 0};
    one.input.path = path;
    one.operations = rules::Operation::read;
    one.object = rules::FileObject{.path = path};
    one.verdict = {
        .action = rules::Action::deny, .decided_by = rules::DecidedBy::rule, .rule = &rule, .error = EACCES};
    return one;
}

rules::Rule rule_named(std::string id) {
    rules::Rule rule;
    rule.id = std::move(id);
    return rule;
}

/// Writes a run: start, four decisions, end.
void write_run(const std::string& directory, const std::string& run, Mode mode = Mode::enforce) {
    auto log = Log::in_directory(directory, {.run = run, .mode = mode});
    REQUIRE(log);
    const rules::Rule secrets = rule_named("secrets"), workdir = rule_named("workdir");
    RunStart start;
    start.command = {"python3", "a b.py"};
    REQUIRE((*log)->record(start));
    REQUIRE((*log)->record(decision(secrets, "/home/u/.ssh/id")));
    REQUIRE((*log)->record(decision(secrets, "/home/u/.aws/key", "/bin/cat")));
    Decision allowed = decision(workdir, "/work/x");
    allowed.verdict.action = rules::Action::allow;
    allowed.operation = rules::Operation::create;
    allowed.mechanism = Mechanism::on_behalf;
    const auto sequence = (*log)->record(allowed);
    REQUIRE(sequence);
    REQUIRE((*log)->record(ActFailed{.of_sequence = *sequence, .error = ENOSPC}));
    Decision asked = decision(workdir, "");
    asked.object = rules::Endpoint{.address = {.bytes = {127, 0, 0, 1}}, .port = 80};
    asked.operation = rules::Operation::connect;
    asked.verdict = {.action = rules::Action::ask, .error = ECONNREFUSED};
    REQUIRE((*log)->record(asked));
    REQUIRE((*log)->record(RunEnd{.outcome = Outcome::exited,
                                  .exit_code = 1,
                                  .signal = {},
                                  .duration_ms = 5,
                                  .counts = {.allow = 1, .ask = 1, .deny = 2}}));
}

ShowOptions all_of(const TemporaryDirectory& base, Filter filter = {}) {
    return {.log = {.state = base.path, .log = ""}, .filter = std::move(filter)};
}

}  // namespace

TEST_CASE("show prints a row for each record, aligned") {
    const TemporaryDirectory base;
    write_run(base.path, "k3f9");
    const Said said = say(show, all_of(base));
    CHECK(said.status == 0);
    CHECK(said.errors.empty());
    const auto rows = lines(said.out);
    REQUIRE(rows.size() == 8);
    CHECK(rows[0].starts_with("TIME"));
    CHECK(rows[1].find("run k3f9: python3 'a b.py'") != std::string::npos);
    CHECK(rows[2].find("/home/u/.ssh/id") == rows[0].find("OBJECT"));
    CHECK(rows[4].find("/work/x") == rows[0].find("OBJECT"));
    CHECK(rows[2].find("secrets") == rows[0].find("RULE"));
    CHECK(rows[2].find("python3 (42)") == rows[0].find("PROGRAM"));
    CHECK(rows[5].find("allowed call number 4 failed: ENOSPC") != std::string::npos);
    CHECK(rows[6].find("ask, denied") == rows[0].find("VERDICT"));
    CHECK(rows[6].find("127.0.0.1:80") == rows[0].find("OBJECT"));
    CHECK(rows[7].find("end of run k3f9: exited 1") != std::string::npos);
    CHECK(said.out.find('\033') == std::string::npos);
}

TEST_CASE("show filters by verdict, operation, rule, object, program and time") {
    const TemporaryDirectory base;
    write_run(base.path, "k3f9");
    const auto rows = [&base](Filter filter) {
        return lines(say(show, all_of(base, std::move(filter))).out).size() - 1;
    };
    CHECK(rows({.verdict = "deny"}) == 2);
    CHECK(rows({.verdict = "ask"}) == 1);
    CHECK(rows({.verdict = "kill"}) == 0);
    CHECK(rows({.operation = "read"}) == 2);
    CHECK(rows({.operation = "write"}) == 1);
    CHECK(rows({.operation = "create"}) == 1);
    CHECK(rows({.rule = "secrets"}) == 2);
    CHECK(rows({.rule = "default"}) == 1);
    CHECK(rows({.object = "*.ssh*"}) == 1);
    CHECK(rows({.object = "/home/**"}) == 2);
    CHECK(rows({.object = "127.0.0.1:*"}) == 1);
    CHECK(rows({.program = "*/cat"}) == 1);
    CHECK(rows({.verdict = "deny", .program = "*/cat"}) == 1);
    CHECK(rows({.since = "1h"}) == 7);
    CHECK(rows({.until = "1h"}) == 0);
    CHECK(rows({.since = "2001-01-01", .until = "2001-01-02T00:00"}) == 0);
}

TEST_CASE("a wrong filter or log is one line and exit 125") {
    const TemporaryDirectory base;
    write_run(base.path, "k3f9");
    const auto wrong = [&base](Filter filter) {
        const Said said = say(show, all_of(base, std::move(filter)));
        return said.status == 125 && said.out.empty() && lines(said.errors).size() == 1;
    };
    CHECK(wrong({.verdict = "allowed"}));
    CHECK(wrong({.operation = "raed"}));
    CHECK(wrong({.object = "[a"}));
    CHECK(wrong({.since = "yesterday"}));
    CHECK(wrong({.until = "2026-13-01"}));
    CHECK(say(show, ShowOptions{.log = {.state = base.path, .log = "nope"}}).status == 125);
    CHECK(say(show, ShowOptions{.log = {.state = base / "none", .log = ""}}).status == 125);
    CHECK(say(show, ShowOptions{.log = {.state = base.path, .log = base.path}}).status == 125);
}

TEST_CASE("json gives the records' own lines") {
    const TemporaryDirectory base;
    write_run(base.path, "k3f9");
    ShowOptions options = all_of(base, {.verdict = "deny"});
    options.json = true;
    const auto rows = lines(say(show, options).out);
    REQUIRE(rows.size() == 2);
    CHECK(nlohmann::json::parse(rows[0])["file"]["path"] == "/home/u/.ssh/id");
    CHECK(take_apart(rows[0]).has_value());
}

TEST_CASE("colours are there only when asked for") {
    const TemporaryDirectory base;
    write_run(base.path, "k3f9");
    ShowOptions options = all_of(base);
    options.colour = true;
    CHECK(say(show, options).out.find("\033[31mdeny\033[0m") != std::string::npos);
    CHECK_FALSE(colour_wanted(-1));
}

TEST_CASE("in audit mode verdicts read as what would have been") {
    const TemporaryDirectory base;
    auto log = Log::in_directory(base.path, {.run = "k3f9", .mode = Mode::audit});
    REQUIRE(log);
    const rules::Rule secrets = rule_named("secrets");
    Decision noted = decision(secrets, "/x");
    noted.mechanism = Mechanism::continued;
    REQUIRE((*log)->record(noted));
    CHECK(say(show, all_of(base)).out.find("would deny") != std::string::npos);
}

TEST_CASE("nothing that a target or a forger chose reaches the terminal raw") {
    const TemporaryDirectory base;
    const std::string hostile =
        "/a\033[2J\r\n\u202e\u200b\xff\x9b"
        "b";
    {
        auto log = Log::in_directory(base.path, {.run = "k3f9", .mode = Mode::enforce});
        REQUIRE(log);
        const rules::Rule rule = rule_named("r\033]0;x\a");
        Decision one = decision(rule, hostile, hostile);
        one.reason = hostile;
        REQUIRE((*log)->record(one));
        RunStart start;
        start.command = {hostile};
        REQUIRE((*log)->record(start));
        REQUIRE((*log)->record(AnswerLost{.of_sequence = 1, .why = hostile}));
        // A forger writes the characters as they are.
        std::ofstream(((*log)->path()), std::ios::app) << R"({"@timestamp":"2026-11-20T10:11:12.000000000Z)"
                                                       << "\u202e"
                                                       << R"(","event":{"action":"x)"
                                                       << "\u2028"
                                                       << R"(","sequence":1},"callgate":{"run":"r)"
                                                       << "\u0085"
                                                       << "\"}}\n"
                                                       << "\033[31mno record\n";
    }
    for (const bool json : {false, true}) {
        ShowOptions options = all_of(base);
        options.json = json;
        const Said said = say(show, options);
        CHECK(said.status == 1);
        CHECK(lines(said.errors).size() == 1);
        CHECK(said.errors.find(":5: not JSON") != std::string::npos);
        for (const std::string& text : {said.out, said.errors}) {
            for (const char one : text) CHECK((one == '\n' || (one >= 0x20 && one < 0x7F)));
        }
        CHECK(lines(said.out).size() == (json ? 4 : 5));
    }
}

TEST_CASE("a log is found by run, by path, and as the newest") {
    const TemporaryDirectory base;
    write_run(base.path, "aaaa");
    write_run(base.path, "bbbb");
    const auto find = [](const std::string& state, const std::string& log) {
        return find_log({.state = state, .log = log}).value();
    };
    const std::string first = find(base.path, "aaaa");
    CHECK(first.ends_with("-aaaa.jsonl"));
    CHECK(find(base.path, "").ends_with("-bbbb.jsonl"));
    CHECK(find(base / "none", first) == first);
    CHECK(find(base.path, fs::path(first).filename().string()) == first);
    CHECK(say(last, base.path).out == find(base.path, "") + "\n");
    CHECK(say(last, base / "none").status == 125);
    CHECK(say(show, ShowOptions{.log = {.state = base.path, .log = "aaaa"}}).out.find("run aaaa") !=
          std::string::npos);
}

TEST_CASE("a command longer than a row is cut, and only then") {
    const TemporaryDirectory base;
    {
        auto log = Log::in_directory(base.path, {.run = "k3f9", .mode = Mode::enforce});
        REQUIRE(log);
        RunStart start;
        start.command = {"sh", "-c", std::string(5000, 'x')};
        REQUIRE((*log)->record(start));
    }
    for (const std::string& text :
         {say(show, all_of(base)).out, say(list, ListOptions{.state = base.path}).out}) {
        CHECK(text.find("sh -c xxx") != std::string::npos);
        CHECK(text.ends_with("x…\n"));
        CHECK(text.size() < 500);
    }
}

TEST_CASE(
    "ls lists runs, newest first, with time, outcome, counts and command, and says where an end is missing") {
    const TemporaryDirectory base;
    write_run(base.path, "aaaa");
    {
        auto log = Log::in_directory(base.path, {.run = "bbbb", .mode = Mode::enforce, .segment_bytes = 1});
        REQUIRE(log);
        for (int index = 0; index < 3; ++index) REQUIRE((*log)->record(RunStart{}));
    }
    std::ofstream(base / "zzz-junk.jsonl") << "junk\n";
    const auto rows = lines(say(list, ListOptions{.state = base.path}).out);
    REQUIRE(rows.size() == 4);
    CHECK(rows[3].find("aaaa") == 0);
    CHECK(rows[3].find("exited 1") != std::string::npos);
    CHECK(rows[3].find("2 denied, 1 asked, 1 allowed") != std::string::npos);
    CHECK(rows[3].find("python3 'a b.py'") != std::string::npos);
    CHECK(rows[2].find("bbbb") == 0);
    CHECK(rows[2].find("no end on record") != std::string::npos);
    const auto json = lines(say(list, ListOptions{.state = base.path, .json = true}).out);
    REQUIRE(json.size() == 3);
    CHECK(nlohmann::json::parse(json[2])["counts"]["deny"] == 2);
    CHECK(nlohmann::json::parse(json[1])["ended"] == false);
}

TEST_CASE("summary counts by rule, object and program, refusals first") {
    const TemporaryDirectory base;
    write_run(base.path, "k3f9");
    SummaryOptions options{.log = {.state = base.path, .log = ""}};
    options.json = true;
    auto groups = nlohmann::json::parse(say(summary, options).out);
    REQUIRE(groups.size() == 3);
    CHECK(groups[0]["rule"] == "secrets");
    CHECK(groups[0]["deny"] == 2);
    CHECK(groups[1]["rule"] == "default");
    CHECK(groups[1]["ask"] == 1);
    CHECK(groups[2]["rule"] == "workdir");
    CHECK(groups[2]["allow"] == 1);
    options.by = "object";
    CHECK(nlohmann::json::parse(say(summary, options).out).size() == 4);
    options.by = "program";
    groups = nlohmann::json::parse(say(summary, options).out);
    REQUIRE(groups.size() == 2);
    CHECK(groups[0]["program"] == "/usr/bin/python3");
    options.json = false;
    CHECK(lines(say(summary, options).out).size() == 3);
    options.by = "colour";
    CHECK(say(summary, options).status == 125);
}

TEST_CASE("tail shows the last records") {
    const TemporaryDirectory base;
    write_run(base.path, "k3f9");
    TailOptions options{.show = all_of(base), .lines = 2, .follow = false};
    const auto rows = lines(say(tail, options).out);
    REQUIRE(rows.size() == 3);
    CHECK(rows[1].find("127.0.0.1:80") != std::string::npos);
    CHECK(rows[2].find("end of run") != std::string::npos);
}

TEST_CASE("tail -f goes on over new records and segments until the end of the run") {
    const TemporaryDirectory base;
    auto log = Log::in_directory(base.path, {.run = "k3f9", .mode = Mode::enforce, .segment_bytes = 1500});
    REQUIRE(log);
    REQUIRE((*log)->record(RunStart{}));
    TailOptions options{.show = all_of(base), .lines = 10, .follow = true};
    options.show.json = true;
    Said said;
    std::thread follower([&] { said = say(tail, options); });
    const rules::Rule rule = rule_named("r");
    for (int index = 0; index < 20; ++index) CHECK((*log)->record(decision(rule, "/x")));
    CHECK((*log)->record(RunEnd{}));
    follower.join();
    CHECK(said.status == 0);
    const auto rows = lines(said.out);
    REQUIRE(rows.size() > 1);
    CHECK(rows.back().find("run.end") != std::string::npos);
    // Records from before the first read are cut to the last ten; all later ones are there.
    std::uint64_t expected = 22 - rows.size() + 1;
    for (const std::string& row : rows) CHECK(nlohmann::json::parse(row)["event"]["sequence"] == expected++);
}

TEST_CASE("times are read in the forms that people write") {
    const std::time_t now = 1'800'000'000;  // 2027-01-15T08:00:00Z
    CHECK(parse_time("2026-11-20", now) == "2026-11-20T00:00:00.000000000Z");
    CHECK(parse_time("2026-11-20T10:11", now) == "2026-11-20T10:11:00.000000000Z");
    CHECK(parse_time("2026-11-20 10:11:12", now) == "2026-11-20T10:11:12.000000000Z");
    CHECK(parse_time("2026-11-20T10:11:12.5Z", now) == "2026-11-20T10:11:12.500000000Z");
    CHECK(parse_time("2026-11-20T10:11:12+02:00", now) == "2026-11-20T08:11:12.000000000Z");
    CHECK(parse_time("2026-11-20T23:30:00-0100", now) == "2026-11-21T00:30:00.000000000Z");
    CHECK(parse_time("10m", now) == "2027-01-15T07:50:00.000000000Z");
    CHECK(parse_time("1500ms", now) == "2027-01-15T07:59:58.000000000Z");
    for (const char* const wrong : {"", "now", "2026", "2026-1-1", "2026-02-32", "2026-11-20T25:00",
                                    "2026-11-20T10:11:12X", "2026-11-20T10:11:12.", "2026-11-20T10", "-5m"}) {
        CHECK_FALSE(parse_time(wrong, now));
    }
}

TEST_CASE("a name with blanks cannot pass for other cells") {
    CHECK(delimited("/var/x") == "/var/x");
    CHECK(delimited("/var/grün漢\\") == "/var/grün漢\\");
    CHECK(delimited("/var/x  base.keys") == "\"/var/x  base.keys\"");
    CHECK(delimited("/var/\"x\\ y") == "\"/var/\\\"x\\\\ y\"");
    for (const char* blank : {"\u00a0", "\u2003", "\u202f", "\u2800", "\u3000"})
        CHECK(delimited(std::string("a") + blank) == std::string("\"a") + blank + '"');
    CHECK(delimited("\xff \xe2\x80") == "\"\xff \xe2\x80\"");
}

TEST_CASE("columns are as wide as a terminal shows them") {
    CHECK(display_width("abc") == 3);
    CHECK(display_width("grün") == 4);
    CHECK(display_width("漢字") == 4);
    CHECK(display_width("e\u0301") == 1);
}
