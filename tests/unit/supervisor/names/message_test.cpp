#include "supervisor/names/message.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>

#include "rules/model/address.hpp"
#include "tests/unit/supervisor/names/packed_name.hpp"

using namespace callgate;
using namespace callgate::names;
using names::tests::packed;

namespace {

using Message = std::vector<std::uint8_t>;

constexpr std::uint16_t type_text = 16;

Message bytes(std::initializer_list<int> values) {
    Message out;
    for (const int value : values) out.push_back(static_cast<std::uint8_t>(value));
    return out;
}

Message operator+(Message left, const Message& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

Message number(std::uint16_t value) { return bytes({value >> 8, value & 0xff}); }

Message head(std::uint16_t flags, std::uint16_t questions, std::uint16_t answers = 0) {
    return number(0x1234) + number(flags) + number(questions) + number(answers) + number(0) + number(0);
}

Message question(std::string_view name, std::uint16_t type = type_a, std::uint16_t of_class = 1) {
    return packed(name) + number(type) + number(of_class);
}

Message record(const Message& owner, std::uint16_t type, const Message& data, std::uint16_t ttl = 60) {
    return owner + number(type) + number(1) + number(0) + number(ttl) +
           number(static_cast<std::uint16_t>(data.size())) + data;
}

const Message to_question = bytes({0xc0, 12});
constexpr std::uint16_t asks = 0x0100, answers = 0x8180, no_such_name = 0x8183;

Query query(std::string_view name, std::uint16_t type = type_a) {
    auto parsed = parse_query(head(asks, 1) + question(name, type));
    REQUIRE(parsed);
    return *parsed;
}

std::vector<rules::IpAddress> addresses(std::size_t count) {
    std::vector<rules::IpAddress> all;
    for (std::size_t index = 0; index < count; ++index)
        all.push_back({.bytes = {203, 0, 113, static_cast<std::uint8_t>(index)}, .v6 = false});
    return all;
}

}  // namespace

TEST_CASE("a query's name is taken in lower case, and its question as it was asked") {
    const Message asked = question("WWW.eXample.ORG", type_aaaa);
    const auto parsed = parse_query(head(asks, 1) + asked);
    REQUIRE(parsed);
    CHECK(parsed->id == 0x1234);
    CHECK(parsed->recursion);
    CHECK(parsed->name == "www.example.org");
    CHECK(parsed->host_name);
    CHECK(parsed->type == type_aaaa);
    CHECK(parsed->class_number == 1);
    CHECK(parsed->question == asked);
}

TEST_CASE("what follows a question is not read") {
    const Message option = bytes({0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 6, 0, 9, 0, 2, 'h', 'i'});
    const auto parsed = parse_query(head(asks, 1) + question("a.example.org") + option);
    REQUIRE(parsed);
    CHECK(parsed->question == question("a.example.org"));
}

TEST_CASE("a message that is no query with one whole question is none") {
    const Message whole = head(asks, 1) + question("a.example.org");
    for (std::size_t size = 0; size < whole.size(); ++size)
        CHECK_FALSE(parse_query(Bytes(whole).first(size)));
    CHECK(parse_query(whole));
    CHECK_FALSE(parse_query(head(answers, 1) + question("a.example.org")));
    CHECK_FALSE(parse_query(head(asks, 0)));
    CHECK_FALSE(parse_query(head(asks, 2) + question("a.example.org") + question("b.example.org")));
    CHECK_FALSE(parse_query(head(asks, 1) + to_question + number(1) + number(1)));  // a loop
    CHECK_FALSE(parse_query(head(asks, 1) + bytes({1, 'a', 0xc0, 12}) + number(1) + number(1)));
    CHECK_FALSE(parse_query(head(asks, 1) + bytes({0x40, 'a', 0}) + number(1) + number(1)));
}

TEST_CASE("labels have at most 63 bytes, and names at most 255 in a message") {
    const std::string label(63, 'a');
    const std::string fits = label + '.' + label + '.' + label + '.' + std::string(61, 'a');
    CHECK(query(fits).name == fits);
    CHECK_FALSE(parse_query(head(asks, 1) + question(fits + "a")));
    CHECK_FALSE(parse_query(head(asks, 1) + question(std::string(64, 'a'))));
    CHECK(query("").name.empty());
}

TEST_CASE("only letters, digits, hyphen and underscore make the name of a host") {
    CHECK(query("_http._tcp.example-1.org").host_name);
    for (const int byte : {0x00, 0x20, 0x2a, 0x2f, 0x40, 0x2e, 0x7f, 0x80, 0xff}) {
        const auto parsed = parse_query(head(asks, 1) + bytes({3, 'a', byte, 'b', 0, 0, 1, 0, 1}));
        REQUIRE(parsed);
        CHECK_FALSE(parsed->host_name);
    }
}

TEST_CASE("an answer repeats the question and holds as many addresses as fit 512 bytes") {
    const Query asked = query("a.example.org");
    const Message few = answer(asked, Code::ok, addresses(2), 7);
    CHECK(few == head(answers, 1, 2) + question("a.example.org") +
                     record(to_question, type_a, bytes({203, 0, 113, 0}), 7) +
                     record(to_question, type_a, bytes({203, 0, 113, 1}), 7));
    const Message many = answer(asked, Code::ok, addresses(200), 7);
    CHECK(many.size() <= max_answer);
    CHECK(many.size() > max_answer - 16);
    CHECK((many[2] & 2U) == 0);  // not truncated
    const std::string label(63, 'a');
    const Query longest = query(label + '.' + label + '.' + label + '.' + std::string(61, 'a'), type_aaaa);
    CHECK(answer(longest, Code::ok, addresses(200)).size() <= max_answer);
}

TEST_CASE("a name that does not exist is answered without a record that could be remembered") {
    CHECK(answer(query("a.example.org"), Code::no_such_name) ==
          head(no_such_name, 1) + question("a.example.org"));
}

TEST_CASE("a message without a question is answered as malformed, if it has a header") {
    CHECK(malformed(head(asks, 3)) == head(0x8081, 0));
    CHECK_FALSE(malformed(Bytes()));
    CHECK_FALSE(malformed(head(answers, 0)));  // two servers would answer each other for ever
}

TEST_CASE("the name of an address is answered") {
    const Query asked = query("1.113.0.203.in-addr.arpa", type_ptr);
    CHECK(name_answer(asked, "www.example.org") ==
          head(answers, 1, 1) + question("1.113.0.203.in-addr.arpa", type_ptr) +
              record(to_question, type_ptr, packed("www.example.org"), 0));
}

TEST_CASE("a server's addresses are those of the name and of the names that it leads to") {
    const Message answered = head(answers, 1, 4) + question("a.example.org") +
                             record(packed("b.example.org"), type_a, bytes({203, 0, 113, 1}), 30) +
                             record(to_question, type_cname, packed("B.example.org"), 50) +
                             record(packed("c.example.org"), type_a, bytes({203, 0, 113, 2}), 1) +
                             record(packed("b.example.org"), type_a, bytes({203, 0, 113, 1}), 40);
    const auto found = parse_answer(answered, "a.example.org", type_a);
    REQUIRE(found);
    CHECK(found->code == Code::ok);
    CHECK(found->addresses == std::vector{rules::IpAddress{.bytes = {203, 0, 113, 1}, .v6 = false}});
    CHECK(found->aliases == std::vector<std::string>{"b.example.org"});
    CHECK(found->ttl == 30);
}

TEST_CASE("aliases that lead in a circle are no answer") {
    const Message circle = head(answers, 1, 2) + question("a.example.org") +
                           record(to_question, type_cname, packed("b.example.org")) +
                           record(packed("b.example.org"), type_cname, packed("a.example.org"));
    CHECK_FALSE(parse_answer(circle, "a.example.org", type_a));
}

TEST_CASE("an answer to another question is none") {
    const Message answered = head(answers, 1, 1) + question("a.example.org") +
                             record(to_question, type_a, bytes({203, 0, 113, 1}));
    CHECK(parse_answer(answered, "a.example.org", type_a));
    CHECK_FALSE(parse_answer(answered, "b.example.org", type_a));
    CHECK_FALSE(parse_answer(answered, "a.example.org", type_aaaa));
    CHECK_FALSE(parse_answer(head(asks, 1) + question("a.example.org"), "a.example.org", type_a));
    CHECK_FALSE(parse_answer(head(answers, 0), "a.example.org", type_a));
    for (std::size_t size = 0; size < answered.size(); ++size)
        CHECK_FALSE(parse_answer(Bytes(answered).first(size), "a.example.org", type_a));
}

TEST_CASE("records of allowed names are passed on beneath the question as it was asked") {
    const auto asked = parse_query(head(asks, 1) + question("WWW.example.org", type_text));
    REQUIRE(asked);
    const Message text = record(to_question, type_text, bytes({2, 'h', 'i'}));
    const Message extra = record(packed("ns.example.org"), type_a, bytes({203, 0, 113, 1}));
    const Message served = head(answers, 1, 1) + question("www.example.org", type_text) + text;
    const Message expected = head(answers, 1, 1) + question("WWW.example.org", type_text) + text;
    CHECK(passed_on(*asked, served, 512) == expected);
    Message longer = served + extra;
    longer[11] = 1;  // one additional record, outside of the answer section
    CHECK(passed_on(*asked, longer, 512) == expected);
    CHECK(passed_on(*asked, served, expected.size()) == expected);
    CHECK(passed_on(*asked, served, expected.size() - 1) ==
          head(answers | 0x0200, 1) + question("WWW.example.org", type_text));
    CHECK(passed_on(*asked, head(no_such_name, 1) + question("www.example.org", type_text), 512) ==
          head(no_such_name, 1) + question("WWW.example.org", type_text));
}

TEST_CASE("an answer whose question is compressed is not passed on, wherever the pointer stands") {
    const Query asked = query("www.example.org", type_text);
    const Message text = record(to_question, type_text, bytes({2, 'h', 'i'}));
    // The rest of the name stands in the data of the first record: the whole question is shorter than ours.
    const auto behind = [](std::size_t at) { return bytes({0xc0, static_cast<int>(at)}); };
    const Message end = number(type_text) + number(1);
    const Message label = bytes({3, 'w', 'w', 'w'});
    const std::size_t name_at = 12 + label.size() + 2 + end.size() + to_question.size() + 10;
    const Message middle = head(answers, 1, 2) + label + behind(name_at) + end +
                           record(to_question, type_text, packed("example.org")) + text;
    CHECK(parse_answer(middle, "www.example.org", type_text));  // it does ask for this name
    CHECK_FALSE(passed_on(asked, middle, 512));
    const std::size_t whole_at = 12 + 2 + end.size() + to_question.size() + 10;
    const Message first = head(answers, 1, 2) + behind(whole_at) + end +
                          record(bytes({0}), type_text, packed("www.example.org")) + text;
    CHECK_FALSE(passed_on(asked, first, 512));
}

TEST_CASE("no answer is passed on whose names lead into a part that is left out") {
    const Query asked = query("www.example.org", type_text);
    const Message words = bytes({5, 'w', 'o', 'r', 'd', 's'});
    Message message = head(answers, 1, 1) + question("www.example.org", type_text);
    const std::size_t authority = message.size() + 2 + 10 + words.size();
    const Message behind = bytes({0xc0, static_cast<int>(authority)});
    message = message + record(behind, type_text, words) + record(packed("ns.example.org"), 2, packed("a"));
    message[9] = 1;  // one record of authority
    CHECK_FALSE(passed_on(asked, message, 65'535));
    const Message whole =
        head(answers, 1, 1) + question("www.example.org", type_text) + record(to_question, type_text, words);
    CHECK(passed_on(asked, whole, 65'535));
}
