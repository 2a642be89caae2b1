#include "supervisor/approval/terminal/prompt.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "rules/load/loader.hpp"
#include "supervisor/approval/protocol/wire.hpp"
#include "supervisor/approval/terminal/proposal.hpp"

using namespace callgate;
using namespace callgate::approval;

namespace {

Question question_of(const std::string& path) {
    Question question;
    question.id = 7;
    question.subject.operations = {rules::Operation::create, rules::Operation::read};
    question.subject.object = AskedObject(rules::FileObject{path});
    question.subject.program = "/usr/bin/python3.11";
    question.operation = rules::Operation::create;
    question.rule = "default";
    question.reason = "outside the work directory";
    question.asked_as = "../x";
    question.process = 4312;
    question.arguments = {"python3", "main.py"};
    question.ancestors = {{4300, "/bin/bash"}};
    question.key = key_of(question.subject, question.rule, {});
    question.home = "/home/u";
    return question;
}

/// A question as it reaches an approver, through the protocol.
QuestionView shown_of(Question question, std::uint64_t count = 1) {
    const QuestionQueue::Open open{std::make_shared<const Question>(std::move(question)), count, count,
                                   58'000'000'000};
    std::string line = ask_message(open, 0);
    line.pop_back();
    auto message = parse_from_run(line, 0);
    REQUIRE(message.ask.has_value());
    message.ask->run = "k3f9ab";
    return *message.ask;
}

bool printable(const std::string& text, bool plain) {
    return std::ranges::all_of(text, [plain](char one) {
        const auto byte = static_cast<unsigned char>(one);
        return one == '\n' || (byte >= 0x20 && byte < 0x7f) || (!plain && byte >= 0x80);
    });
}

}  // namespace

TEST_CASE("a prompt says who wants what, by which rule, and what can be answered") {
    const Drawn drawn = draw(shown_of(question_of("/home/u/.config/tool/settings.json"), 14),
                             {.columns = 200, .position = 7, .total = 9, .now_ns = 0});
    CHECK_FALSE(drawn.cut);
    CHECK(drawn.text ==
          "┏ callgate  question 7 of 9   run k3f9ab   denies in 58 s\n"
          "┃ wants to   create (and read)\n"
          "┃ object     /home/u/.config/tool/settings.json   (does not exist yet)\n"
          "┃ asked as   ../x\n"
          "┃ by         /usr/bin/python3.11  pid 4312  <  bash 4300\n"
          "┃            14 times\n"
          "┃ rule       default   reason: outside the work directory\n"
          "┃ beneath    /home/u/.config/tool\n"
          "┗ [Enter] deny   a allow once   s this, this run   t everything beneath, this run   "
          "u wider   w read and write   d deny this, this run   D deny all, this run   r propose a rule   v "
          "details   k kill\n");
}

TEST_CASE("a prompt speaks of operations and addresses in words") {
    const auto text = [](rules::Operation operation, const rules::Object& object) {
        Question question = question_of("/w/x");
        question.operation = operation;
        question.subject.operations = operation;
        question.subject.object = AskedObject(object);
        return draw(shown_of(std::move(question)), {.columns = 200}).text;
    };
    const auto address = [](const char* host, std::uint16_t port) {
        rules::Endpoint endpoint;
        endpoint.address = *rules::parse_address(host);
        endpoint.port = port;
        return rules::Object{endpoint};
    };
    using rules::Operation;
    const auto holds = [](const std::string& whole, const char* part) {
        return whole.find(part) != std::string::npos;
    };
    CHECK(holds(text(Operation::metadata, rules::FileObject{"/w/x"}), "wants to   change attributes of\n"));
    CHECK(holds(text(Operation::bind, address("127.0.0.1", 8080)), "wants to   listen on\n"));
    CHECK(holds(text(Operation::bind, address("::1", 0)), "[::1]:0   (this machine itself)\n"));
    CHECK(holds(text(Operation::connect, address("9.9.9.9", 53)),
                "9.9.9.9:53   (where name servers listen)\n"));
    CHECK(holds(text(Operation::connect, address("203.0.113.4", 5353)), "203.0.113.4:5353\n"));
}

TEST_CASE("a question that was denied before says so") {
    Question question = question_of("/w/x");
    question.again = true;
    const std::string text = draw(shown_of(std::move(question)), {.columns = 200}).text;
    CHECK(text.find("again      you have denied this before") != std::string::npos);
}

TEST_CASE("the reason that a program gives is shown as its own words") {
    Question question = question_of("/w/x");
    question.arguments = {"callgate", "request", "--reason", "the tests\nneed it", "--", "read", "/w/x"};
    const std::string text = draw(shown_of(std::move(question)), {.columns = 200}).text;
    CHECK(text.find("it says    the tests\\x0aneed it\n") != std::string::npos);
    question = question_of("/w/x");
    question.arguments = {"tool", "--reason", "request", "x"};
    CHECK(draw(shown_of(std::move(question)), {.columns = 200}).text.find("it says") == std::string::npos);
}

TEST_CASE("a long name wraps while the screen has room, and is cut beyond it") {
    const QuestionView shown = shown_of(question_of("/w/" + std::string(300, 'x')));
    const Drawn wrapped = draw(shown, {.columns = 80, .rows = 40, .plain = true});
    CHECK_FALSE(wrapped.cut);
    CHECK(std::ranges::count(wrapped.text, 'x') >= 300);
    CHECK(std::ranges::count(wrapped.text, '\n') <= 38);
    CHECK(draw(shown, {.columns = 80, .rows = 17, .plain = true}).cut);
    const QuestionView huge = shown_of(question_of("/w/" + std::string(4092, 'x')));
    CHECK(draw(huge, {.columns = 80, .rows = 40, .plain = true}).cut);
}

TEST_CASE("bytes of the target reach the terminal only as printable ASCII") {
    const std::string hostile =
        "/w/\x1b[2J\x1b]0;owned\a\r\n┏ callgate\xe2\x80\xae"
        "gpj\xe2\x80\x8b\xd0\xb0\xff\x9b"
        "1m\\x";
    Question question = question_of(hostile);
    question.asked_as = hostile;
    question.subject.program = "/bin/\x1b[1m";
    question.arguments = {hostile};
    question.rule = "r\x1b[0m";
    question.reason = "\r\nr";
    const QuestionView shown = shown_of(std::move(question));
    for (const bool details : {false, true}) {
        const Drawn drawn = draw(shown, {.columns = 300, .details = details, .plain = true, .now_ns = 0});
        CHECK(printable(drawn.text, true));
        CHECK(drawn.text.find("/w/\\x1b[2J\\x1b]0;owned\\x07\\x0d\\x0a") != std::string::npos);
        CHECK(drawn.text.find("\\xe2\\x80\\xaegpj\\xe2\\x80\\x8b\\xd0\\xb0\\xff\\x9b1m\\\\x") !=
              std::string::npos);
    }
}

TEST_CASE("the end of each argument is visible, and a link shows its target") {
    Question question = question_of("/home/u/project/new");
    question.operation = rules::Operation::execute;
    question.subject.arguments = {"git", "one two", "", "it's", "a\"b", "\xff"};
    question.source = "/home/u/letters/a\x1b";
    question.identity = audit::FileIdentity{1, 2};
    const std::string text =
        draw(shown_of(std::move(question)), {.columns = 200, .plain = true, .now_ns = 0}).text;
    CHECK(text.find("arguments  git 'one two' '' 'it\\x27s' 'a\"b' \\\\xff\n") != std::string::npos);
    CHECK(text.find("object     /home/u/project/new   (does not exist yet)\n") != std::string::npos);
    CHECK(text.find("link to    /home/u/letters/a\\x1b\n") != std::string::npos);
}

TEST_CASE("the end of each program's name is visible") {
    Question question = question_of("/w/x");
    question.subject.program = "/w/make  pid 12  <  bash 11";
    question.ancestors = {{4300, "/w/sh 1  <  bash"}, {4299, "/bin/bash"}, {4298, ""}};
    const std::string text =
        draw(shown_of(std::move(question)), {.columns = 200, .plain = true, .now_ns = 0}).text;
    CHECK(text.find(
              "by         '/w/make  pid 12  <  bash 11'  pid 4312  <  'sh 1  <  bash' 4300  <  bash 4299  <  "
              " 4298\n") != std::string::npos);
}

TEST_CASE("a long name is cut in the middle, counted, and cannot be allowed before it was shown") {
    const std::string path = "/w/" + std::string(4092, 'x');
    const QuestionView shown = shown_of(question_of(path));
    const Drawn drawn = draw(shown, {.columns = 80, .plain = true, .now_ns = 0});
    CHECK(drawn.cut);
    CHECK(drawn.text.find("..[+") != std::string::npos);
    CHECK(drawn.text.find("more is hidden") != std::string::npos);
    CHECK(drawn.text.find("allow once") == std::string::npos);
    for (const char* letter : {"a", "s", "t"}) CHECK(understand(letter, shown, !drawn.cut) == Typed::again);
    CHECK(understand("d", shown, !drawn.cut) == Typed::deny_run);
    CHECK(understand("D", shown, !drawn.cut) == Typed::deny_all);
    std::string whole = draw(shown, {.columns = 80, .details = true, .plain = true, .now_ns = 0}).text;
    CHECK(std::ranges::count(whole, 'x') >= 4092);
    CHECK(understand("a", shown, true) == Typed::once);
}

TEST_CASE("no line of a prompt is wider than the terminal") {
    const QuestionView shown = shown_of(question_of("/w/" + std::string(500, 'y')));
    for (const std::size_t columns : {20U, 40U, 80U, 132U}) {
        for (const bool details : {false, true}) {
            const std::string text =
                draw(shown, {.columns = columns, .details = details, .plain = true}).text;
            std::size_t longest = 0;
            for (std::size_t begin = 0; begin < text.size();) {
                const std::size_t end = text.find('\n', begin);
                longest = std::max(longest, end - begin);
                begin = end + 1;
            }
            CHECK(longest <= std::max<std::size_t>(columns, 36));  // a key's name is not broken
        }
    }
}

TEST_CASE("on a narrow screen the title takes more lines, and hides no key") {
    Question question = question_of("/w/notes");
    question.again = true;
    const QuestionView shown = shown_of(std::move(question));
    for (const std::size_t columns : {30U, 40U, 56U}) {
        CAPTURE(columns);
        const Drawn drawn = draw(shown, {.columns = columns, .rows = 60, .plain = true});
        CHECK_FALSE(drawn.cut);
        CHECK(drawn.text.find("a allow once") != std::string::npos);
        CHECK(drawn.text.find("denies in 58 s\n") != std::string::npos);
        // A low screen hides what it has no room for before `v`, and not after it.
        const Drawn small = draw(shown, {.columns = columns, .rows = 16, .plain = true});
        CHECK(small.cut == (small.text.find("more is hidden") != std::string::npos));
        const Drawn whole = draw(
            shown, {.columns = columns, .rows = 16, .scrolls_back = true, .details = true, .plain = true});
        CHECK_FALSE(whole.cut);
        CHECK(whole.text.find("more is hidden") == std::string::npos);
        CHECK(whole.text.find("..[+") == std::string::npos);
    }
}

TEST_CASE("a change of settings is shown whole, or no key allows it") {
    Question question = question_of("/home/u/p/.git/config.lock");
    question.subject.second_path = "/home/u/p/.git/config";
    question.subject.arguments = {R"(remote.origin.url: "a" -> ")" + std::string(200, 'x') + R"(evil")"};
    const QuestionView shown = shown_of(std::move(question));
    CHECK(shown.arguments.empty());
    REQUIRE(shown.changes.size() == 1);
    const Drawn whole = draw(shown, {.columns = 400, .now_ns = 0});
    CHECK(whole.text.find("change settings that are there") != std::string::npos);
    CHECK(whole.text.find("changes    " + shown.changes[0] + "\n") != std::string::npos);
    CHECK_FALSE(whole.cut);
    const Drawn narrow = draw(shown, {.columns = 60, .rows = 16, .now_ns = 0});
    CHECK(narrow.cut);
    CHECK(narrow.text.find("allow once") == std::string::npos);
    CHECK(proposed_rule(shown).error() == errno_code(ENOTSUP));
}

TEST_CASE("a letter and Enter answers; Enter, Esc and nonsense never allow") {
    const QuestionView shown = shown_of(question_of("/home/u/p/x"));
    CHECK(understand("", shown, true) == Typed::deny);
    CHECK(understand("\x1b", shown, true) == Typed::deny);
    CHECK(understand("a", shown, true) == Typed::once);
    CHECK(understand("s\r", shown, true) == Typed::object);
    CHECK(understand("t", shown, true) == Typed::tree);
    CHECK(understand("k", shown, true) == Typed::kill);
    CHECK(understand("r", shown, true) == Typed::propose);
    CHECK(understand("v", shown, true) == Typed::details);
    for (const char* line : {"A", "yes", "aa", "\x1b[?62;c", "a\x1b", "\xd0\xb0"})
        CHECK(understand(line, shown, true) == Typed::again);
    const QuestionView at_home = shown_of(question_of("/home/u/x"));
    CHECK(understand("t", at_home, true) == Typed::again);  // it was not offered
}

TEST_CASE("a paste is no answer, whatever lines it holds") {
    TypedLines lines;
    CHECK(lines.take("a") == "a");
    CHECK_FALSE(lines.take("\x1b[200~a\x1b[201~").has_value());
    CHECK(lines.take("a") == "a");
    CHECK_FALSE(lines.take("\x1b[200~x").has_value());
    CHECK_FALSE(lines.take("a").has_value());
    CHECK_FALSE(lines.take("a\x1b[201~").has_value());
    CHECK(lines.take("a") == "a");
    CHECK_FALSE(lines.take("\x1b[200~x\x1b[201~a\x1b[200~").has_value());
    CHECK_FALSE(lines.take("a").has_value());
}

TEST_CASE("bytes of any kind come through the protocol unchanged") {
    const std::string bytes = "/w/\xff\xfe\x1b\xe2\x80\xae end";
    Question question = question_of(bytes);
    question.asked_as = bytes;
    const QuestionView shown = shown_of(std::move(question));
    CHECK(shown.object == bytes);
    CHECK(shown.asked_as == bytes);
    CHECK(shown.program == "/usr/bin/python3.11");
    CHECK(shown.offers(Scope::tree) == false);  // /w is directly beneath the root
}

TEST_CASE("incoming messages are one of few, or nonsense") {
    CHECK(std::holds_alternative<Nonsense>(parse_message("")));
    CHECK(std::holds_alternative<Nonsense>(parse_message("{\"v\":2,\"type\":\"auth\"}")));
    CHECK(std::holds_alternative<Nonsense>(parse_message(std::string(60000, '['))));
    CHECK(std::holds_alternative<AuthMessage>(parse_message(R"({"v":1,"type":"auth","token":"x"})")));
    const auto message =
        parse_message(R"({"v":1,"type":"decision","id":3,"key":"k","verdict":"allow","more":[1]})");
    const auto* decision = std::get_if<DecisionMessage>(&message);
    REQUIRE(decision != nullptr);
    CHECK(decision->reply.action == rules::Action::allow);
    CHECK(decision->wrong.empty());
    const auto wrong = parse_message(R"({"v":1,"type":"decision","id":3,"key":"k","verdict":"ALLOW"})");
    CHECK_FALSE(std::get<DecisionMessage>(wrong).wrong.empty());
    CHECK(std::get<DecisionMessage>(wrong).reply.action == rules::Action::deny);
}

TEST_CASE("the answer of a deciding program is understood, or denies") {
    CHECK(parse_program_answer(R"({"verdict":"allow","scope":"tree","reason":"fine"})").scope == Scope::tree);
    CHECK(parse_program_answer(R"({"verdict":"allow"})").verdict == "allow");
    for (const char* text :
         {"", "yes", "[]", "{}", R"({"verdict":"ok"})", R"({"verdict":"allow","scope":"all"})"}) {
        const auto answer = parse_program_answer(text);
        CHECK(answer.verdict == "deny");
        CHECK_FALSE(answer.problem.empty());
    }
}

TEST_CASE("a proposed rule names exactly what was shown") {
    Question question = question_of("/home/u/p/a[b]*");
    CHECK(proposed_rule(shown_of(std::move(question))).value() ==
          R"({"id": "accepted-k3f9ab-7", "allow": ["read", "create"], "path": "/home/u/p/a\\[b\\]\\*", )"
          R"("program": "/usr/bin/python3.11"})");
    CHECK(proposed_rule(shown_of(question_of("/w/\xff"))).error() == errno_code(EILSEQ));
    Question connect = question_of("/");
    connect.operation = rules::Operation::connect;
    connect.subject.operations = rules::Operation::connect;
    connect.subject.object =
        AskedObject(rules::Endpoint{{{203, 0, 113, 4}, false}, 443, rules::Protocol::tcp});
    CHECK(
        proposed_rule(shown_of(std::move(connect))).value() ==
        R"({"id": "accepted-k3f9ab-7", "allow": "connect", "address": "203.0.113.4", "port": 443, "protocol": )"
        R"("tcp", "program": "/usr/bin/python3.11"})");
}

TEST_CASE("a proposed rule names the host of an address, if it has one name") {
    const auto where = [](const std::string& hosts) {
        Question connect = question_of("/");
        connect.operation = rules::Operation::connect;
        connect.subject.operations = rules::Operation::connect;
        connect.subject.object =
            AskedObject(rules::Endpoint{{{203, 0, 113, 4}, false}, 443, rules::Protocol::tcp});
        connect.host = hosts;
        const std::string rule = proposed_rule(shown_of(std::move(connect))).value();
        const std::size_t begin = rule.find("\"connect\", ") + 11;
        return rule.substr(begin, rule.find(", \"port\"") - begin);
    };
    CHECK(where("www.example.org") == R"("host": "www.example.org")");
    CHECK(where("www.example.org, evil.example") == R"("address": "203.0.113.4")");
    CHECK(where("*.example.org") == R"("address": "203.0.113.4")");
}

TEST_CASE("a rule is added behind the last one; comments and order stay as they are") {
    const std::string rule = "{\"id\": \"new\"}";
    CHECK(with_rule("{\n  // mine: [\"rules\"]\n  \"version\": 1, \"limits\": {\"rules\": [1]},\n  "
                    "\"rules\": [\n    {\"id\": \"a\"}, // "
                    "first ]\n    {\"id\": \"b\", \"path\": [\"]\"]} /* last ] */ // end\n  ],\n  "
                    "\"default\": \"deny\"\n}\n",
                    rule) ==
          "{\n  // mine: [\"rules\"]\n  \"version\": 1, \"limits\": {\"rules\": [1]},\n  \"rules\": [\n    "
          "{\"id\": \"a\"}, // "
          "first ]\n    {\"id\": \"b\", \"path\": [\"]\"]}, /* last ] */ // end\n    {\"id\": \"new\"}\n  "
          "],\n  \"default\": "
          "\"deny\"\n}\n");
    CHECK(with_rule("{\"rules\": []}", rule) == "{\"rules\": [\n    {\"id\": \"new\"}\n  ]}");
    CHECK(with_rule("{\"rules\": [{\"id\": \"a\"},\n]}", rule) ==
          "{\"rules\": [{\"id\": \"a\"},\n    {\"id\": \"new\"}\n]}");
    CHECK_FALSE(with_rule("{\"version\": 1}", rule).has_value());
    CHECK_FALSE(with_rule("", rule).has_value());
    CHECK_FALSE(with_rule("{\"rules\": [", rule).has_value());
    CHECK_FALSE(with_rule("\"rules", rule).has_value());
}

TEST_CASE("a rule is taken out of a rule set, and everything else stays byte for byte") {
    const std::string text =
        "{\n  \"limits\": {\"rules\": [1]}, // \"rules\": [{}]\n  \"rules\": [\n    // first\n    {\"id\": "
        "\"a\"},\n"
        "    {\"id\": \"b\", \"path\": [\"/x,}\"]}, // second\n    {\"id\": \"c\"}\n  ]\n}\n";
    CHECK(rules_in(text) == std::vector<std::string>{"{\"id\": \"a\"}",
                                                     "{\"id\": \"b\", \"path\": [\"/x,}\"]}",
                                                     "{\"id\": \"c\"}"});
    CHECK(without_rule(text, 0) ==
          "{\n  \"limits\": {\"rules\": [1]}, // \"rules\": [{}]\n  \"rules\": [\n    // first\n"
          "    {\"id\": \"b\", \"path\": [\"/x,}\"]}, // second\n    {\"id\": \"c\"}\n  ]\n}\n");
    CHECK(without_rule(text, 1) ==
          "{\n  \"limits\": {\"rules\": [1]}, // \"rules\": [{}]\n  \"rules\": [\n    // first\n    {\"id\": "
          "\"a\"},\n"
          "     // second\n    {\"id\": \"c\"}\n  ]\n}\n");
    CHECK(without_rule(text, 2) ==
          "{\n  \"limits\": {\"rules\": [1]}, // \"rules\": [{}]\n  \"rules\": [\n    // first\n    {\"id\": "
          "\"a\"},\n"
          "    {\"id\": \"b\", \"path\": [\"/x,}\"]} // second\n  ]\n}\n");
    CHECK_FALSE(without_rule(text, 3).has_value());
    CHECK(without_rule("{\"rules\": [{}]}", 0) == "{\"rules\": []}");
    CHECK(without_rule("{\"rules\": [{},{}]}", 1) == "{\"rules\": [{}]}");
    CHECK_FALSE(rules_in("{}").has_value());
}

TEST_CASE("a field keeps its width, whatever letters it has") {
    bool cut = false;
    std::string text;
    for (int count = 0; count < 100; ++count) text += "é";
    CHECK(shortened(text, 40, cut) == "ééééé..[+180 bytes]..ééééé");
    CHECK(cut);
}
