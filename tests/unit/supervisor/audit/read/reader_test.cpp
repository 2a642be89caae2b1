#include "supervisor/audit/read/reader.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>

#include "supervisor/audit/write/log.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::audit;
namespace fs = std::filesystem;

namespace {

using callgate::tests::TemporaryDirectory;

void write(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

void append(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

constexpr std::string_view good =
    R"({"@timestamp":"2026-11-20T10:11:12.000000000Z","event":{"action":"openat","sequence":1},"callgate":{"verdict":"deny"}})";

/// The steps of a whole file: "r" record, "b<line>" bad.
std::string steps(const std::string& path) {
    auto reader = Reader::open(path);
    REQUIRE(reader.has_value());
    std::string text;
    for (Reader::Step step; (step = reader->next()) != Reader::Step::end;) {
        text += step == Reader::Step::record ? "r" : "b" + std::to_string(reader->line_number());
    }
    return text + (reader->torn() ? " torn" : "");
}

}  // namespace

TEST_CASE("what the log writes, the reader reads") {
    const TemporaryDirectory base;
    auto log = Log::at_file(base / "x.jsonl", {.run = "k3f9", .mode = Mode::audit});
    REQUIRE(log);
    RunStart start;
    start.command = {"python3", "main.py"};
    REQUIRE((*log)->record(start));
    Decision decision;
    decision.call = "connect";
    decision.caller = {.pid = 42, .parent = 1, .start_time = 7, .executable = "/usr/bin/curl", .uid = 0};
    decision.operation = rules::Operation::connect;
    decision.operations = rules::Operation::connect;
    decision.object =
        rules::Endpoint{.address = {.bytes = {203, 0, 113, 4}}, .port = 53, .protocol = rules::Protocol::udp};
    decision.verdict = {.action = rules::Action::ask, .error = ECONNREFUSED};
    REQUIRE((*log)->record(decision));
    REQUIRE((*log)->record(RunEnd{
        .outcome = Outcome::exited, .exit_code = 3, .signal = {}, .duration_ms = 1, .counts = {.allow = 5}}));

    auto reader = Reader::open(base / "x.jsonl");
    REQUIRE(reader.has_value());
    REQUIRE(reader->next() == Reader::Step::record);
    CHECK(reader->entry().action == "run.start");
    CHECK(reader->entry().command == start.command);
    CHECK_FALSE(reader->entry().decision());
    REQUIRE(reader->next() == Reader::Step::record);
    const Entry& entry = reader->entry();
    CHECK(entry.decision());
    CHECK(entry.run == "k3f9");
    CHECK(entry.mode == "audit");
    CHECK(entry.sequence == 2);
    CHECK(entry.verdict == "ask");
    CHECK(entry.operation == "connect");
    CHECK(entry.operations == std::vector<std::string>{"connect"});
    CHECK(entry.object == "203.0.113.4:53/udp");
    CHECK(entry.rule == "default");
    CHECK(entry.program == "/usr/bin/curl");
    CHECK(entry.pid == 42);
    CHECK(entry.error == "ECONNREFUSED");
    REQUIRE(reader->next() == Reader::Step::record);
    CHECK(reader->entry().outcome == "exited");
    CHECK(reader->entry().exit_code == 3);
    REQUIRE(reader->entry().counts);
    CHECK(reader->entry().counts->allow == 5);
    CHECK(reader->next() == Reader::Step::end);
    const auto last = last_record(base / "x.jsonl");
    REQUIRE(last);
    CHECK(last->action == "run.end");
}

TEST_CASE("lines that are no records are reported by number and reading goes on") {
    const TemporaryDirectory base;
    const std::string line(good);
    const std::string nul("\0", 1);
    write(base / "log", line + "\n" + "garbage\n" + line + "\n\n" + "[1,2]\n" + "{\"a\":" + nul + "}\n" +
                            "{\"x\":\"\xff\"}\n" + "{\"@timestamp\":7,\"event\":[],\"callgate\":{}}\n" +
                            "null\n" + line + "\n");
    CHECK(steps(base / "log") == "rb2rb4b5b6b7b8b9r");
}

TEST_CASE("a line that is nested without end is no record") {
    const std::string head = R"({"@timestamp":"t","event":{"action":"a","sequence":1},"callgate":{},"x":)";
    const auto nested = [&](std::size_t depth) {
        return parse_record(head + std::string(depth, '[') + "\"[\\\"{\"" + std::string(depth, ']') + '}');
    };
    CHECK(nested(20).has_value());
    REQUIRE_FALSE(nested(200'000).has_value());
    CHECK(nested(200'000).error().text == "nested deeper than a record is");
}

TEST_CASE("members of the wrong type, and numbers beyond any range, are no danger") {
    for (const std::string_view member :
         {"7", "-1", "1e400", "99999999999999999999999", "{}", "[[]]", "null", "true", "\"x\"", "[null,1]"}) {
        const std::string text = std::string(member);
        const std::string line =
            R"({"@timestamp":"t","event":{"action":"a","sequence":1},"process":{"pid":)" + text +
            R"(,"executable":)" + text + R"(},"file":)" + text + R"(,"destination":)" + text + R"(,"rule":)" +
            text + R"(,"callgate":{"verdict":)" + text + R"(,"operations":)" + text + R"(,"command":)" +
            text + R"(,"counts":)" + text + R"(,"exit_code":)" + text + "}}";
        INFO(line);
        const auto entry = parse_record(line);
        // 1e400 is no number to the parser: then it is no record. Everything else is one without these
        // members.
        CHECK(entry.has_value() == (text != "1e400"));
        if (entry) CHECK(entry->object.empty());
    }
}

TEST_CASE("a line beyond the bound is skipped without being held") {
    const TemporaryDirectory base;
    const std::string line(good);
    write(base / "log", line + "\n" + std::string(40 << 20, 'x') + "\n" + line + "\n");
    CHECK(steps(base / "log") == "rb2r");
    write(base / "log", std::string(3 << 20, '['));
    CHECK(steps(base / "log") == " torn");
    write(base / "log", std::string((1 << 20) - 2, '[') + "\n" + line + "\n");
    CHECK(steps(base / "log") == "b1r");
}

TEST_CASE("a torn last line is no record until it is whole") {
    const TemporaryDirectory base;
    write(base / "log", std::string(good) + "\n" + std::string(good.substr(0, 20)));
    auto reader = Reader::open(base / "log");
    REQUIRE(reader.has_value());
    CHECK(reader->next() == Reader::Step::record);
    CHECK(reader->next() == Reader::Step::end);
    CHECK(reader->torn());
    append(base / "log", std::string(good.substr(20)) + "\n");
    CHECK(reader->next() == Reader::Step::record);
    CHECK(reader->line_number() == 2);
    CHECK(reader->next() == Reader::Step::end);
    CHECK_FALSE(reader->torn());
}

TEST_CASE("segments are read one after the other") {
    const TemporaryDirectory base;
    const std::string line = std::string(good) + "\n";
    write(base / "a-r.jsonl", line + line);
    write(base / "a-r.2.jsonl", line + "bad\n");
    write(base / "a-r.3.jsonl", line);
    write(base / "a-r.5.jsonl", line);
    auto reader = Reader::open(base / "a-r.jsonl");
    REQUIRE(reader.has_value());
    std::string seen;
    for (Reader::Step step; (step = reader->next()) != Reader::Step::end;) {
        seen += fs::path(reader->path()).filename().string() + ":" + std::to_string(reader->line_number()) +
                (step == Reader::Step::bad ? "! " : " ");
    }
    CHECK(seen == "a-r.jsonl:1 a-r.jsonl:2 a-r.2.jsonl:1 a-r.2.jsonl:2! a-r.3.jsonl:1 ");
}

TEST_CASE("what is no regular file is not read") {
    const TemporaryDirectory base;
    REQUIRE(::mkfifo((base / "fifo").c_str(), 0600) == 0);
    const auto error = [](const std::string& path) {
        const auto reader = Reader::open(path);
        return reader ? 0 : reader.error().value();
    };
    CHECK(error(base / "fifo") == EINVAL);
    CHECK(error(base.path) == EINVAL);
    CHECK(error(base / "none") == ENOENT);
}

TEST_CASE("random damage to a log never stops the reader") {
    const TemporaryDirectory base;
    std::mt19937 random(7);
    const std::string line = std::string(good) + "\n";
    for (int round = 0; round < 300; ++round) {
        std::string text = line + line + line;
        for (int damage = 0; damage < 8; ++damage) text[random() % text.size()] = static_cast<char>(random());
        write(base / "log", text);
        const std::string seen = steps(base / "log");
        const auto newlines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        const auto told = static_cast<std::size_t>(
            std::count_if(seen.begin(), seen.end(), [](char one) { return one == 'r' || one == 'b'; }));
        CHECK(told == newlines + (seen.ends_with("torn") ? 1 : 0));  // "torn" has an r of its own
    }
}
