// Rule files as text: accepted input, and that every error is reported at once, at its place.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>

#include "rules/load/json_tree.hpp"
#include "rules/load/rule_parser.hpp"
#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate;
using namespace callgate::rules;

namespace {

ParsedFile parse(const std::string& text, std::vector<Diagnostic>& out) {
    const TestMachine machine;
    const LoadContext context = machine.context();
    PatternMaker patterns(context);
    return parse_rules(text, "f", patterns, out);
}

/// The findings, one a line.
std::string errors(const std::string& text) {
    std::vector<Diagnostic> out;
    parse(text, out);
    std::string all;
    for (const Diagnostic& one : out) all += one.text() + '\n';
    return all;
}

std::string rule_errors(const std::string& rule) { return errors("{\"rules\":[" + rule + "]}"); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a complete rule set is read with every key in its place") {
    std::vector<Diagnostic> out;
    const ParsedFile file = parse(R"({
        // a comment
        "$schema": "rules.schema.json", "version": 1, "description": "d", "extends": ["base", "./x.json"],
        "default": "ask", /* another */
        "rules": [
            {"id": "a", "allow": ["read", "write"], "path": ["${workdir}/**", "~/x"], "program": "**/python3",
             "except": {"path": "${workdir}/no"}, "reason": "why"},
            {"deny": "connect", "address": ["10.0.0.0/8", "::1"], "port": [443, "8000-8999"], "protocol": "udp",
             "errno": "ENETUNREACH"},
            {"kill": "bind", "unix": ["@x*", "${tmp}/s"], "protocol": ["stream", "datagram"]},
            {"ask": "connect", "host": "Example.ORG"}
        ],
        "limits": {"wall": "60s", "open_files": 256, "file_size": "1G"},
        "environment": {"pass": ["LANG"], "set": {"A": "${tmp}/a", "B": "~/b"}},
        "examples": {"allow": ["read ~/x"], "deny": "read ~/y"}
    })",
                                  out);
    REQUIRE(out.empty());
    CHECK(file.fallback == Action::ask);
    REQUIRE(file.rules.size() == 4);
    const Rule& first = file.rules[0].rule;
    CHECK(first.id == "a");
    CHECK(first.operations == (write_operations | Operation::read));
    CHECK(first.when.path.at(0).text() == "/home/u/work/**");
    CHECK(first.when.path.at(1).text() == "/home/u/x");
    CHECK(first.when.program.at(0).matches("/usr/bin/python3"));
    CHECK(first.except->path.at(0).text() == "/home/u/work/no");
    CHECK(first.source.line == 6);
    CHECK(first.source.column == 13);
    const Rule& second = file.rules[1].rule;
    CHECK(second.id == "f#2");
    CHECK(second.when.address.size() == 2);
    CHECK(second.when.port == std::vector<PortRange>{{443, 443}, {8000, 8999}});
    CHECK(second.error == ENETUNREACH);
    CHECK(file.rules[2].rule.action == Action::kill);
    CHECK(file.rules[2].rule.when.unix_socket.at(0).matches("@xyz/1"));
    CHECK(file.rules[3].rule.when.host.at(0).text == "example.org");
    CHECK(file.limits.wall == std::chrono::seconds(60));
    CHECK(file.limits.file_size == std::uint64_t{1} << 30U);
    CHECK(file.environment.set.at("A") == "/tmp/callgate-1000-k3f9/a");
    CHECK(file.environment.set.at("B") == "~/b");
    CHECK(file.examples.size() == 2);
    CHECK(file.extends.at(1).name == "./x.json");
}

TEST_CASE("all errors of a file are reported at once, each with line and column") {
    const std::string text = R"({
  "vresion": 1,
  "rules": [
    { "alow": "read", "path": "/x" },
    { "allow": "raed", "path": "x" },
    { "deny": "connect", "path": "/x", "port": 70000 },
    { "deny": "read", "port": 80 }
  ],
  "default": "maybe"
})";
    CHECK(errors(text) ==
          "f:2:3: error: unknown key \"vresion\": did you mean \"version\"?\n"
          "f:4:5: error: expected an action: \"allow\", \"ask\", \"deny\" or \"kill\"\n"
          "f:4:7: error: unknown key \"alow\": did you mean \"allow\"?\n"
          "f:5:16: error: unknown operation \"raed\": did you mean \"read\"?\n"
          "f:5:32: error: pattern \"x\": expected a pattern that begins with \"/\", \"~/\", \"${...}\" or "
          "\"**/\"\n"
          "f:6:26: error: \"path\" has no meaning for connect: it is for file operations\n" +
              errors(text).substr(errors(text).find("f:6:48")));
    CHECK(has(errors(text), "f:6:48: error: port 70000: "));
    CHECK(has(errors(text), "f:7:23: error: \"port\" has no meaning for read: it is for connect and bind\n"));
    CHECK(has(errors(text), "f:9:14: error: unknown default \"maybe\": expected allow, ask or deny\n"));
}

TEST_CASE("a rule for links denies to create, by the path alone") {
    CHECK(rule_errors(R"({"deny":"create","path":"/x/**","links":true,"except":{"path":"/x/y"}})").empty());
    for (const char* const wrong :
         {R"({"allow":"create","path":"/x","links":true})", R"({"deny":"write","path":"/x","links":true})",
          R"({"deny":"create","links":true})", R"({"deny":"create","path":"/x","program":"/p","links":true})",
          R"({"deny":"create","path":"/x","links":true,"except":{"path":"/x","program":"/p"}})"}) {
        CAPTURE(wrong);
        CHECK(has(rule_errors(wrong), "\"links\" is for rules that deny to create a \"path\""));
    }
    CHECK(has(rule_errors(R"({"deny":"create","path":"/x","links":"yes"})"), "expected true or false"));
}

TEST_CASE("only a rule that allows datagrams alone may be left out for what the kernel lacks") {
    const std::string fits = R"({"allow":"bind","unix":"/x","protocol":"datagram","needs":"landlock-unix"})";
    CHECK(rule_errors(fits).empty());
    CHECK(rule_errors(R"({"needs":"landlock-unix","allow":"bind","unix":"/x","protocol":["datagram"]})")
              .empty());
    for (const std::string_view other :
         {R"({"deny":"bind","unix":"/x","protocol":"datagram","needs":"landlock-unix"})",
          R"({"allow":"bind","unix":"/x","needs":"landlock-unix"})",
          R"({"allow":"bind","unix":"/x","protocol":["stream","datagram"],"needs":"landlock-unix"})"})
        CHECK_MESSAGE(has(rule_errors(std::string(other)), "\"needs\" is for a rule that allows"), other);
    CHECK(has(rule_errors(R"({"allow":"bind","unix":"/x","protocol":"datagram","needs":"landlock-udp"})"),
              "needs \"landlock-udp\": expected \"landlock-unix\""));
}

TEST_CASE("a quiet rule denies, and gives no copy") {
    CHECK(rule_errors(R"({"deny":"read","path":"/x","quiet":true,"errno":"ENOENT"})").empty());
    CHECK(rule_errors(R"({"deny":"bind","address":"::1","quiet":true})").empty());
    CHECK(
        has(rule_errors(R"({"allow":"read","path":"/x","quiet":true})"), "\"quiet\" is for rules that deny"));
    CHECK(
        has(rule_errors(R"({"kill":"read","path":"/x","quiet":true})"), "\"quiet\" is for rules that deny"));
    CHECK(
        has(rule_errors(R"({"deny":"read","path":"/x","quiet":1})"), "expected true, false or \"success\""));
    CHECK(rule_errors(R"({"deny":"read","path":"/x","quiet":"success"})").empty());
    CHECK(has(rule_errors(R"({"deny":"read","path":"/x","quiet":"failure"})"),
              "expected true, false or \"success\""));
    CHECK(has(rule_errors(R"({"deny":"read","path":"/x","filtered":true,"quiet":true})"),
              "\"quiet\" does not go with \"filtered\""));
}

TEST_CASE("columns count bytes, also behind comments, tabs and letters of several bytes") {
    CHECK(errors("{ /* \xc3\xa9 */\t\"vresion\": 1}") ==
          "f:1:12: error: unknown key \"vresion\": did you mean \"version\"?\n");
    CHECK(errors("{ // x\r\n\"vresion\":\n\n 1}") ==
          "f:2:1: error: unknown key \"vresion\": did you mean \"version\"?\n");
    CHECK(errors("\xef\xbb\xbf{\"vresion\": 1}") ==
          "f:1:2: error: unknown key \"vresion\": did you mean \"version\"?\n");
    CHECK(errors("{\"version\":1/**/,\"default\":5}") ==
          "f:1:28: error: expected \"allow\", \"ask\" or \"deny\", not 5\n");
}

TEST_CASE("a condition that has no meaning for the operation is an error") {
    const std::vector<std::string> bad = {R"({"allow":"read","host":"example.org"})",
                                          R"({"allow":"read","address":"10.0.0.1"})",
                                          R"({"allow":"read","unix":"/x"})",
                                          R"({"allow":"read","protocol":"tcp"})",
                                          R"({"allow":"read","argv":["*"],"path":"/x"})",
                                          R"({"allow":["execute","read"],"argv":["*"]})",
                                          R"({"allow":"bind","path":"/x"})",
                                          R"({"allow":["read","connect"],"path":"/x"})",
                                          R"({"deny":"read","path":"/x","except":{"port":1}})"};
    for (const std::string& rule : bad) CHECK_MESSAGE(has(rule_errors(rule), "has no meaning for"), rule);
    CHECK(rule_errors(R"({"allow":["read","connect"],"program":"/bin/x"})").empty());
    CHECK(has(rule_errors(R"({"allow":"connect","expand":true})"),
              "\"expand\" has no meaning without \"path\""));
    CHECK(has(rule_errors(R"({"allow":"read","path":"/x","errno":"ENOENT"})"),
              "\"errno\" has no meaning for allow"));
    CHECK(has(rule_errors(R"({"allow":"connect","unix":"/x","port":1})"), "can never match"));
    CHECK(has(rule_errors(R"({"allow":"connect","unix":"/x","protocol":"tcp"})"),
              "\"stream\" or \"datagram\""));
    CHECK(has(rule_errors(R"({"allow":"connect","protocol":"stream"})"), "\"tcp\" or \"udp\""));
    CHECK(rule_errors(R"({"allow":"connect","address":["127.0.0.0/8","::1"],"server":"run"})").empty());
    CHECK(has(rule_errors(R"({"allow":"connect","address":"::1","server":"me"})"), "unknown server \"me\""));
    for (const char* const wrong :
         {R"({"allow":"connect","server":"run"})", R"({"allow":"bind","address":"0.0.0.0/0","server":"run"})",
          R"({"allow":"bind","address":"127.0.0.0/7","server":"run"})",
          R"({"allow":"bind","address":["127.0.0.1","::/64"],"server":"run"})",
          R"({"allow":"bind","address":"::1","protocol":"udp","server":"run"})"})
        CHECK(has(rule_errors(wrong), "needs loopback addresses beside it"));
    CHECK(has(rule_errors(R"({"allow":"read","address":"::1","server":"run"})"), "has no meaning for read"));
}

TEST_CASE("values of a wrong kind say what was expected") {
    const std::vector<std::pair<std::string, std::string>> bad = {
        {R"({"allow":[],"path":"/x"})", "an empty list means nothing"},
        {R"({"allow":"read","path":[]})", "an empty list means nothing"},
        {R"({"allow":"read","path":7})", "expected a path pattern or a list of them, not 7"},
        {R"({"allow":"read","path":""})", "expected a path pattern"},
        {R"({"allow":"read","path":"/x","expand":"yes"})",
         "expected true, false or \"sources\", not \"yes\""},
        {R"({"allow":"read","deny":"read","path":"/x"})", "a rule has one action"},
        {R"({"deny":"read","path":"/x","except":{}})", "would except everything"},
        {R"({"deny":"read","path":"/x","except":{"expand":true}})", "belongs to the rule"},
        {R"({"deny":"read","path":"/x","except":{"pth":"/y"}})", "did you mean \"path\"?"},
        {R"({"deny":"read","path":"/x","errno":"ENOTHING"})", "unknown errno"},
        {R"({"deny":"read","path":"/x","id":"default"})", "has a meaning of its own"},
        {R"({"deny":"read","path":"/x","id":"a=b"})", "without \"=\""},
        {R"({"deny":"read","path":"/[x"})", "pattern \"/[x\": "},
        {R"({"deny":"read","path":"${wrokdir}/x"})", "did you mean ${workdir}?"},
        {R"({"deny":"read","path":"~root/x"})", "homes of other users"},
        {R"({"deny":"connect","address":"10.0.0.1/40"})", "address \"10.0.0.1/40\": "},
        {R"({"deny":"connect","port":4.5})", "port 4.5: "},
        {R"({"deny":"connect","port":18446744073709551616})", "port 18446744073709551616: "},
        {R"({"deny":"connect","host":"10.0.0.1"})", "host \"10.0.0.1\": "},
        {R"({"deny":"connect","host":"*.exa*ple.org"})", "is not a host name or *.suffix"},
        {R"("x")", "expected a rule (an object), not \"x\""}};
    for (const auto& one : bad) {
        const std::string found = rule_errors(one.first);
        CHECK_MESSAGE(has(found, one.second), one.first, found);
    }
    CHECK(has(errors("[]"), "f:1:1: error: expected a rule set (an object), not a list"));
    CHECK(has(errors("{\"version\":2}"), "expected version 1"));
    CHECK(has(errors("{\"default\":\"kill\"}"), "unknown default \"kill\""));
    CHECK(has(errors("{\"environment\":{\"pass\":[\"A=B\"]}}"), "is not the name of a variable"));
    CHECK(has(errors("{\"examples\":{\"alow\":\"read /x\"}}"), "did you mean \"allow\"?"));
}

TEST_CASE("limits are sizes, counts and times above 0") {
    CHECK(
        errors(
            "{\"limits\":{\"memory\":\"512M\",\"processes\":32,\"cpu\":\"30s\",\"disk\":\"1G\",\"idle\":9}}")
            .empty());
    CHECK(errors("{\"limits\":{\"wall\":1,\"open_files\":8,\"file_size\":\"1K\"}}").empty());
    CHECK(has(errors("{\"limits\":{\"wall\":\"0s\"}}"), "expected a time above 0"));
    CHECK(has(errors("{\"limits\":{\"file_size\":\"1Q\"}}"), "expected a size above 0"));
    CHECK(has(errors("{\"limits\":{\"opn_files\":8}}"), "did you mean \"open_files\"?"));
}

TEST_CASE("duplicate keys, bytes that are not UTF-8 and NUL are errors at their place") {
    CHECK(errors("{\"version\":1,\n\"version\":1}") ==
          "f:2:1: error: the key \"version\" stands twice in one object\n");
    CHECK(errors("{\"version\":1, // \xff\n}") == "f:1:18: error: invalid UTF-8: byte \\xff\n");
    CHECK(errors("{\"a\xed\xa0\x80\":1}") == "f:1:4: error: invalid UTF-8: byte \\xed\n");
    CHECK(errors(std::string("{}\0", 3)) == "f:1:3: error: a NUL byte: expected JSON text\n");
    CHECK(has(rule_errors("{\"allow\":\"read\",\"path\":\"/a\\u0000b\"}"), "holds a NUL character"));
}

TEST_CASE("syntax errors name their place and say what to write") {
    const std::pair<std::string, std::string> wrong[] = {
        {"{\n  \"rules\": [ }", "f:2:14: error: the list that begins in line 2 ends with \"]\""},
        {"{\"a\":1} x", "f:1:9: error: more text follows the end"},
        {"{\"a\":1}}", "f:1:8: error: more text follows the end"},
        {"", "f:1:1: error: the text is empty"},
        {"{\"rules\":\n[{}",
         "f:2:4: error: the text ends, and the list that begins in line 2 is not closed: expected \"]\""},
        {"{\"a\":", "the object that begins in line 1 is not closed: expected \"}\""},
        {"{ /* never closed", "error: "},
        {"{\"a\": [1, 2,]}", "f:1:13: error: a comma stands before this \"]\": take the comma out"},
        {"{\"a\": 1, // one\n}", "f:2:1: error: a comma stands before this \"}\": take the comma out"},
        {"{'a': 1}", "f:1:2: error: a string stands in plain double quotes (\"), not in other ones"},
        {"{\"a\": 'x'}", "f:1:7: error: a string stands in plain double quotes"},
        {"{\"a\": \xe2\x80\x9cx\xe2\x80\x9d}", "f:1:7: error: a string stands in plain double quotes"},
        {"{a: 1}", "f:1:2: error: the word \"a\" has no quotes: names and strings stand in double quotes"},
        {"{\"a\": nul}", "f:1:7: error: the word \"nul\" has no quotes"},
        {"{\"a\": True}", "f:1:7: error: \"True\" is no JSON: write true"},
        {"{\"a\": None}", "write null, or leave the member out"},
        {"{\"a\": 1 \"b\": 2}", "f:1:9: error: a comma is missing before this"},
        {"{\"a\": [{} {}]}", "f:1:11: error: a comma is missing before this"},
        {"{\"a\" 1}", "f:1:6: error: a colon is missing after the name"},
        {"{\"a\": }", "f:1:7: error: a value is missing after the name"},
        {"{1: 2}", "f:1:2: error: a name in double quotes is missing here"},
        {"{\"a\": 1e999}", "this is no JSON: number overflow"},
        {"{\"a\": 1, , \"b\": 2}", "f:1:12: error: a \",\" too many before this"},
        {"{\"a\": \"x", "this is no JSON: invalid string: missing closing quote"},
        {"{\"a\": \"\\ud800\"}", "this is no JSON: invalid string"},
    };
    for (const auto& [text, words] : wrong) {
        const std::string said = errors(text);
        CAPTURE(said);
        CHECK_MESSAGE(has(said, words), said);
        for (const char* const parsers : {"syntax error", "literal", "last read", "json.exception"})
            CHECK_MESSAGE(!has(said, parsers), said);
    }
}

TEST_CASE("nesting of 100,000 levels is refused where it passes the bound") {
    for (const std::string open : {"[", "{\"a\":"}) {
        std::string text;
        for (int level = 0; level < 100'000; ++level) text += open;
        CHECK(has(errors(text), "nested deeper than 64 levels"));
    }
}

TEST_CASE("100 MB of text are refused before anything is built") {
    const std::string text(100 * 1000 * 1000, '[');
    CHECK(has(errors(text), "at most 1 MiB is read"));
}

TEST_CASE("a megabyte of errors gives a bounded list") {
    std::string text = "{\"rules\":[";
    for (int index = 0; index < 9000; ++index) text += index == 0 ? "{\"x\":0}" : ",{\"x\":0}";
    std::vector<Diagnostic> out;
    parse(text + "]}", out);
    CHECK(out.size() == Findings::max_errors + 1);
    CHECK(has(out.back().message, "the rest is not shown"));
}

TEST_CASE("more than 10,000 rules are refused") {
    std::string text = "{\"rules\":[0";
    for (std::size_t index = 0; index < max_rules; ++index) text += ",0";
    CHECK(has(errors(text + "]}"), "10001 rules; at most 10000 are taken"));
}

TEST_CASE("a megabyte of braces is refused, whatever it would expand to") {
    std::string text = R"({"rules":[{"allow":"read","path":["/x")";
    for (int index = 0; index < 20'000; ++index) text += R"(,"/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}")";
    CHECK(has(errors(text + "]}]}"), "more than 30000 alternatives"));
}

TEST_CASE("the bytes of a variable's value mean nothing in a pattern") {
    TestMachine machine;
    machine.workdir = "/home/u/a[b]*{c,d}?\\";
    const LoadContext context = machine.context();
    PatternMaker patterns(context);
    std::vector<Glob> globs;
    REQUIRE(patterns.make("${workdir}/*.txt", false, globs).has_value());
    CHECK(globs.front().matches("/home/u/a[b]*{c,d}?\\/x.txt"));
    CHECK_FALSE(globs.front().matches("/home/u/ab/x.txt"));
    CHECK_FALSE(globs.front().matches("/home/u/a[b]zz{c,d}?\\/x.txt"));
    REQUIRE(patterns.make("/a\\${home}", false, globs).has_value());
    CHECK(globs.back().matches("/a$home"));
}

TEST_CASE("a variable that is not known here is an error") {
    TestMachine machine;
    machine.home.clear();
    const LoadedRules loaded = machine.load_text(R"({"rules":[{"deny":"read","path":"~/.ssh/**"}]})");
    CHECK(has(findings(loaded), "${home} is not known here"));
    CHECK(loaded.rules == nullptr);
}

TEST_CASE("a literal head that passes through a link also matches by its canonical name") {
    TestMachine machine;
    machine.tree.link("/home/u/data", "/srv/data");
    machine.tree.directory("/srv/data");
    const LoadedRules loaded = machine.load_text(
        R"({"rules":[{"allow":"read","path":"~/data/**/*.txt"},{"deny":"read","path":"~/data/secret"}]})");
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    CHECK(decide(loaded, Operation::read, "/srv/data/a/b.txt") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/home/u/data/b.txt") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/srv/data/b.bin") == Action::deny);
    CHECK(loaded.rules->rules()[1].when.path.size() == 2);
    CHECK(loaded.rules->rules()[1].when.path[1].text() == "/srv/data/secret");
}

TEST_CASE("a tree holds every key and value of its text, each with its place") {
    std::vector<Diagnostic> out;
    Findings findings("f", out);
    const auto document = parse_json(
        "{\"a\": [1, \"x\\u0041\", [], {}],\n \"b\": {\"c\": true, \"d\": null}, \"e\": -1.5}", findings);
    REQUIRE(document);
    const JsonTree tree = document->tree();
    const JsonValue whole = root(tree);
    CHECK(whole.members().size() == 3);
    CHECK(whole.items().empty());
    std::string keys;
    for (const JsonMember& member : whole.members()) keys += member.key;
    CHECK(keys == "abe");
    const auto list = whole.member("a");
    REQUIRE(list);
    std::vector<JsonValue> items(list->value.items().begin(), list->value.items().end());
    REQUIRE(items.size() == 4);
    CHECK(items[0].text() == "1");
    CHECK(items[1].text() == "xA");
    CHECK(items[1].column() == 11);
    CHECK(items[2].kind() == JsonValue::Kind::array);
    CHECK(items[2].items().empty());
    CHECK(items[3].members().empty());
    const auto inner = whole.member("b");
    REQUIRE(inner);
    CHECK(inner->line == 2);
    CHECK(inner->value.member("c")->value.boolean());
    CHECK(inner->value.member("d")->value.kind() == JsonValue::Kind::null);
    CHECK_FALSE(inner->value.member("a"));
    CHECK(whole.member("e")->value.text() == "-1.5");
    CHECK(out.empty());
}

TEST_CASE("messages cannot write on a terminal") {
    const std::string text = errors("{\"\\u001b[2J\\u202e\\n\":1}");
    CHECK(has(text, "\\x1b[2J\\u{202e}\\n"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK_FALSE(has(text, "\x1b"));
}

TEST_CASE("the shipped schema is JSON and names every key, operation and errno that the parser knows") {
    std::vector<Diagnostic> out;
    Findings findings("schema", out);
    const auto schema = parse_json(rules_schema(), findings);
    REQUIRE(out.empty());
    REQUIRE(schema);
    const std::string text(rules_schema());
    for (const KeyPlace place : {KeyPlace::file, KeyPlace::rule, KeyPlace::condition, KeyPlace::limit,
                                 KeyPlace::environment, KeyPlace::example, KeyPlace::agent})
        for (const std::string_view key : known_keys(place))
            CHECK_MESSAGE(has(text, '"' + std::string(key) + "\":"), key);
    for (const std::string_view word : errno_names())
        CHECK_MESSAGE(has(text, '"' + std::string(word) + '"'), word);
    for (int index = 0; index < operation_count; ++index)
        CHECK(has(text, '"' + std::string(name(static_cast<Operation>(index))) + '"'));
}
