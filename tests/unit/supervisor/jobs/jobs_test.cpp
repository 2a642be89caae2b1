#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/jobs/answer_text.hpp"
#include "supervisor/jobs/command_line.hpp"
#include "supervisor/jobs/job.hpp"
#include "supervisor/jobs/language.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace {

using namespace callgate;
using jobs::Form;
using nlohmann::json;
using Words = std::vector<std::string>;

jobs::Job job(const std::string& text, Form form = Form::once) {
    const jobs::Request request = jobs::parse_request(text, form);
    const auto* const fault = std::get_if<jobs::Fault>(&request);
    REQUIRE_MESSAGE(fault == nullptr, (fault == nullptr ? "" : fault->why));
    return std::get<jobs::Job>(request);
}

std::string fault(const std::string& text, Form form = Form::once) {
    const jobs::Request request = jobs::parse_request(text, form);
    const auto* const found = std::get_if<jobs::Fault>(&request);
    return found == nullptr ? "" : found->why;
}

bool has(const Words& words, const std::string& wanted) {
    return std::find(words.begin(), words.end(), wanted) != words.end();
}

std::string text_of(std::string_view bytes) {
    Buffer out;
    jobs::append_text(out, bytes);
    return json::parse(out.view()).get<std::string>();
}

TEST_CASE("code becomes the command of its language, python where none is named") {
    CHECK(job(R"x({"code":"print(1)"})x").command == Words{"python3", "-c", "print(1)"});
    CHECK(job(R"({"code":"a","language":"bash"})").command == Words{"bash", "-c", "a"});
    CHECK(job(R"({"code":"a","language":"sh"})").command == Words{"sh", "-c", "a"});
    CHECK(job(R"({"code":"a","language":"node"})").command == Words{"node", "--eval=a"});
    CHECK(job(R"({"command":["a","b"]})").command == Words{"a", "b"});
}

TEST_CASE("code that begins as an option, or is empty, is code all the same") {
    CHECK(job(R"({"code":"-x","language":"bash"})").command == Words{"bash", "-c", " -x"});
    CHECK(job(R"({"code":"","language":"node"})").command == Words{"node", "--eval=;"});
}

TEST_CASE("code that no argument can hold is read from a descriptor") {
    const std::string long_code(131072, '#');
    const jobs::Job read = job(json{{"code", long_code}, {"language", "sh"}}.dump());
    CHECK(read.script == long_code);
    CHECK(read.command == Words{"sh", "-c", ". /dev/fd/4"});
    const jobs::CommandLine line = jobs::command_line(read, {}, {});
    CHECK(has(line.words, "--pass-fd=4"));
    // The longest that execve(2) takes, its NUL included, is an argument.
    CHECK(job(json{{"code", std::string(131000, '#')}}.dump()).script.empty());
}

TEST_CASE("a member that is wrong is named, with what was expected and what is near") {
    CHECK(fault(R"({"cod":"x"})") == "unknown member \"cod\"; did you mean code?");
    CHECK(fault(R"({"code":1})") == "code: expected a text; it is the number 1");
    CHECK(fault(R"({"code":"x","timeout":0})").starts_with("timeout: expected seconds above 0"));
    CHECK(fault(R"({"code":"x","timeout":1e300})").starts_with("timeout: expected seconds above 0"));
    CHECK(fault(R"({"code":"x","timeout":-1})").starts_with("timeout: expected"));
    CHECK(fault(R"({"code":"x","memory":"1Q"})").starts_with("memory: expected bytes above 0"));
    CHECK(fault(R"({"code":"x","processes":1.5})").starts_with("processes: expected a whole number"));
    CHECK(fault(R"({"code":"x","env":[]})").starts_with("env: expected an object"));
    CHECK(fault(R"({"code":"x","env":{"A=B":"x"}})") == "env: \"A=B\" cannot be a variable's name");
    CHECK(fault(R"({"code":"x","read":"/x"})") == "read: expected a list of texts; it is the text \"/x\"");
    CHECK(fault(R"({"code":"x","language":"pyton"})").ends_with("did you mean python?"));
    CHECK(fault(R"({"code":"x\u0000"})") == "code: holds a NUL character (U+0000)");
    CHECK(fault(R"({"code":"x","scratch":"/a","workdir":"/b"})").find("leave out one") != std::string::npos);
    CHECK(fault(R"({"code":"x","command":["x"]})").find("leave out one") != std::string::npos);
    CHECK(fault(R"({"language":"sh"})").starts_with("code: is missing"));
    CHECK(fault(R"({"command":[]})").starts_with("command: expected"));
    CHECK(
        fault(R"({"code":"x","max_output":1099511627776})").starts_with("max_output: expected at most 256M"));
    CHECK(fault(R"({"code":"x","code":"y"})") == "the member \"code\" is there twice");
    CHECK(fault(R"({"code":"x","rules":{"a":{"b":1,"b":2}}})") == "the member \"b\" is there twice");
    CHECK(fault("[1]") == "the job is a list; expected an object");
    CHECK(fault("  ").starts_with("the job is empty"));
    CHECK(fault("{} {}").starts_with("the job is no JSON: at line 1, column 4"));
    CHECK(fault(R"({"code":1e999})").starts_with("the job is no JSON"));
    CHECK(fault(R"({"code":"x","rules":)" + std::string(1000, '[')).find("too deeply") != std::string::npos);
    CHECK(fault("{\"code\":\"\xff\"}").starts_with("the job is no JSON"));
    std::string many;
    for (int value = 0; value < 1'000'001; ++value) many += "0,";
    CHECK(fault(R"({"code":"x","rules":[)" + many + "0]}").find("more than a million values") !=
          std::string::npos);
    CHECK(job(R"({"code":")" + many + "\"}").script.size() == many.size());
}

TEST_CASE("one of many jobs needs an id, which comes back as it was") {
    CHECK(fault(R"({"code":"x"})", Form::served).starts_with("id: is missing"));
    CHECK(fault(R"({"code":"x","id":null})", Form::served).starts_with("id: expected"));
    CHECK(fault(R"({"code":"x","id":1.5})", Form::served).starts_with("id: expected"));
    CHECK(job(R"({"code":"x","id":-7})", Form::served).id == "-7");
    CHECK(job(R"({"code":"x","id":"a\"\n"})", Form::served).id == R"("a\"\u000a")");
    const auto cancel = jobs::parse_request(R"({"cancel":"a","now":true})", Form::served);
    CHECK(std::get<jobs::Cancel>(cancel).id == "\"a\"");
    CHECK(std::get<jobs::Cancel>(cancel).now);
    CHECK(fault(R"({"cancel":"a"})", Form::once).starts_with("unknown member \"cancel\""));
    CHECK(fault(R"({"cancel":"a","nou":true})", Form::served).find("did you mean now") != std::string::npos);
}

TEST_CASE("a job becomes options of run; values of variables do not stand among the words") {
    const jobs::Job read =
        job(R"({"command":["x"],"scratch":"/w","cwd":"/c","timeout":1.5,"grace":"3s","memory":"1M",
        "env":{"A":"x\ny","B":null},"profiles":"python","read":["/r"],"deny":["/d"]})");
    const jobs::CommandLine line =
        jobs::command_line(read, {}, {"PATH=/bin", "CALLGATE_STATUS=fd:1", "A=old"});
    const Words words = {"--quiet",
                         "--workdir=/w",
                         "--cwd=/c",
                         "--profile=python",
                         "--deny=/d",
                         "--read=/r",
                         "--report=fd:3",
                         "--timeout=1500ms",
                         "--memory=1048576",
                         "--grace=3000ms",
                         "--env=B",
                         "--",
                         "x"};
    CHECK(line.words == words);
    CHECK(line.environment == Words{"PATH=/bin", "A=old"});
    CHECK(line.variables == Words{"CALLGATE_SETENV_A=x\ny"});
    Words current = line.environment;
    current.insert(current.end(), line.variables.begin(), line.variables.end());
    cli::EnvironmentChoice choice;
    choice.current = current;
    CHECK(has(cli::make_environment(choice), "A=x\ny"));
}

TEST_CASE("what the command line says of the rules, a job cannot say again; limits of both hold") {
    jobs::Settings settings;
    settings.policy = "--profile";
    settings.workdir = true;
    settings.limits.wall = std::chrono::seconds(5);
    for (const char* const text :
         {R"({"code":"x","rules":{}})", R"({"code":"x","profiles":["a"]})", R"({"code":"x","write":["/"]})",
          R"({"code":"x","workdir":"/"})", R"({"code":"x","env":{"KEY":null}})"})
        CHECK(jobs::check_allowed(job(text), settings).error().text.find("leave out one of them") !=
              std::string::npos);
    CHECK(jobs::check_allowed(job(R"({"code":"x","deny":["/"],"env":{"A":"b"}})"), settings).has_value());
    CHECK(
        has(jobs::command_line(job(R"({"code":"x","timeout":9})"), settings, {}).words, "--timeout=5000ms"));
    CHECK(
        has(jobs::command_line(job(R"({"code":"x","timeout":2})"), settings, {}).words, "--timeout=2000ms"));
}

TEST_CASE("a job's grace does not go beyond the server's time") {
    const auto grace = [](const char* text, const jobs::Settings& settings) {
        const Words words = jobs::command_line(job(text), settings, {}).words;
        const auto found =
            std::ranges::find_if(words, [](const std::string& one) { return one.starts_with("--grace="); });
        return found == words.end() ? std::string() : *found;
    };
    constexpr const char *usual = R"({"code":"x"})", *deaf = R"({"code":"x","grace":1000})",
                         *brief = R"({"code":"x","grace":0.5})";
    jobs::Settings none, limited, ruled, graceful;
    limited.limits.wall = std::chrono::seconds(5);
    ruled.policy = "--rules";
    graceful.grace = std::chrono::seconds(4);
    CHECK(grace(deaf, none) == "--grace=1000000ms");
    CHECK(grace(deaf, limited) == "--grace=2000ms");
    CHECK(grace(deaf, ruled) == "--grace=2000ms");
    CHECK(grace(deaf, graceful) == "--grace=4000ms");
    for (const jobs::Settings& one : {none, limited, ruled, graceful})
        CHECK(grace(brief, one) == "--grace=500ms");
    CHECK(grace(usual, limited).empty());
    CHECK(grace(usual, graceful) == "--grace=4000ms");
}

TEST_CASE("rules that no argument can hold are read from a descriptor") {
    const std::string text =
        json{{"code", "x"}, {"rules", {{"description", std::string(200000, 'd')}}}}.dump();
    const jobs::CommandLine line = jobs::command_line(job(text), {}, {});
    CHECK(line.rules.size() > 200000);
    CHECK(has(line.words, "--rules=/proc/self/fd/5"));
}

TEST_CASE("what is no UTF-8 is replaced part by part, as other decoders do") {
    const std::string mark = "\uFFFD";
    CHECK(text_of("h\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x8E\x82") == "h\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x8E\x82");
    CHECK(text_of("\xFF\xFE") == mark + mark);
    CHECK(text_of("\xE2\x82x") == mark + "x");
    CHECK(text_of("\xF0\x9F\x8E") == mark);
    CHECK(text_of("\xC0\xAF") == mark + mark);
    CHECK(text_of("\xED\xA0\x80") == mark + mark + mark);
    CHECK(text_of("\xF4\x90\x80\x80") == mark + mark + mark + mark);
    CHECK(text_of(std::string_view("a\0\n\t\r\x1b\"\\", 8)) == std::string("a\0\n\t\r\x1b\"\\", 8));
}

TEST_CASE("an answer is one line that shows nothing on a terminal but itself") {
    jobs::JobResult result;
    result.id = "\"a\"";
    result.output = {"x\n\x1b[2J\u202e\xff{\"id\":2}\n", 18};
    result.output.total = result.output.bytes.size();
    result.error = {"12\xE2\x82", 9};
    result.exit_status = 3;
    result.report = "{\"version\":1}\n";
    const std::string line = jobs::answer_text(result, false);
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    CHECK(line.find('\x1b') == std::string::npos);
    CHECK(line.find("\u202e") == std::string::npos);
    const json read = json::parse(line);
    CHECK(read["id"] == "a");
    CHECK(read["output"] == "x\n\x1b[2J\u202e\uFFFD{\"id\":2}\n");
    CHECK(decode_base64(read["output_base64"].get<std::string>()) == result.output.bytes);
    CHECK_FALSE(read.contains("output_truncated"));
    CHECK(read["error"] == "12");  // the cut itself makes nothing invalid
    CHECK_FALSE(read.contains("error_base64"));
    CHECK(read["error_truncated"] == true);
    CHECK(read["error_bytes"] == 9);
    CHECK(read["exit_code"] == 3);
    CHECK(read["report"]["version"] == 1);
    CHECK(json::parse(jobs::answer_text(result, true))["code"] == 3);
    result.why = "no";
    const json refused = json::parse(jobs::answer_text(result, false));
    CHECK(refused["error"] == "no");
    CHECK_FALSE(refused.contains("exit_code"));
}

TEST_CASE("the schema of jobs names exactly the members that are read") {
    std::ifstream file(TESTDATA "/../../docs/exec.schema.json");
    const json schema = json::parse(file);
    const json& properties = schema["$defs"]["job"]["properties"];
    for (const std::string_view name : jobs::known_members()) CHECK_MESSAGE(properties.contains(name), name);
    CHECK(properties.size() == jobs::known_members().size());
    const auto languages = properties["language"]["enum"].get<std::vector<std::string>>();
    for (const std::string_view language : jobs::languages())
        CHECK(std::ranges::find(languages, language) != languages.end());
}

}  // namespace
