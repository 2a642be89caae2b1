// Fuzzes the messages of look-ups, as a program of the run and as a name server send them: ./dev fuzz.
//
// The first byte of an input says what the rest is. It is a query, a server's answer to one of the queries
// below, or lines in the form of hosts(5). Besides memory errors and undefined behaviour these things are
// checked. A query that is taken is answered once, in full, and within the bound. No name is looked up under
// rules that deny all. What goes back repeats the question, and its records can be read.
#include <arpa/nameser.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "supervisor/names/hosts.hpp"
#include "supervisor/names/look_ups.hpp"
#include "supervisor/names/message.hpp"
#include "tests/fakes/run_needs.hpp"
#include "tests/unit/supervisor/names/packed_name.hpp"

using namespace callgate;
using namespace callgate::names;

namespace {

using Message = std::vector<std::uint8_t>;

[[noreturn]] void broken(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

void expect(bool holds, const char* what) {
    if (!holds) broken(what);
}

/// A reply can be read to its end, and is one to this query.
void check_reply(const Message& reply, Bytes query, std::size_t limit) {
    expect(reply.size() >= 12 && reply.size() <= limit, "a reply of a wrong length");
    expect(reply[0] == query[0] && reply[1] == query[1], "a reply to another query");
    expect((reply[2] & 0x80U) != 0, "a reply that is a query");
    ns_msg parsed{};
    expect(ns_initparse(reply.data(), static_cast<int>(reply.size()), &parsed) == 0, "a reply that is none");
    expect(ns_msg_end(parsed) == reply.data() + reply.size(), "a reply with bytes behind it");
    if (ns_msg_count(parsed, ns_s_qd) == 1) {
        ns_rr question{};
        expect(ns_parserr(&parsed, ns_s_qd, 0, &question) == 0, "a question that cannot be read");
    }
    for (int index = 0; index < ns_msg_count(parsed, ns_s_an); ++index) {
        ns_rr record{};
        expect(ns_parserr(&parsed, ns_s_an, index, &record) == 0, "a record that cannot be read");
    }
    expect(ns_msg_count(parsed, ns_s_ns) == 0 && ns_msg_count(parsed, ns_s_ar) == 0,
           "a reply with records that nobody judged");
}

/// No rule allows a name: whatever is asked, nothing goes out.
void take_query(Bytes message) {
    static boost::asio::io_context loop;
    static fakes::RunNeeds run({}, rules::Action::deny);
    static Bindings bindings;
    static LookUps look_ups(loop, run.decide, bindings);
    bindings.bind("www.example.org", rules::IpAddress{.bytes = {203, 0, 113, 7}, .v6 = false});
    run.sink.noted.clear();
    std::size_t replies = 0;
    const bool taken = look_ups.take(message, {}, max_answer, [&](const Message& reply) {
        ++replies;
        check_reply(reply, message, max_answer);
    });
    expect(replies == (taken ? 1 : 0), "a query that is not answered once");
    expect(loop.poll() == 0, "a query that led to something");
    for (const fakes::Sink::Noted& one : run.sink.noted)
        expect(one.action == rules::Action::deny, "a name that nobody allowed");

    const auto query = parse_query(message);
    if (!query) return;
    expect(query->name.size() <= 254, "a name that is too long");
    expect(std::ranges::equal(query->question, message.subspan(12, query->question.size())),
           "a question that is not repeated");
    std::vector<rules::IpAddress> many(300);
    for (std::size_t index = 0; index < many.size(); ++index) {
        many[index].v6 = query->type == type_aaaa;
        many[index].bytes[3] = static_cast<std::uint8_t>(index);
    }
    check_reply(answer(*query, Code::ok, many, 60), message, max_answer);
    check_reply(name_answer(*query, "www.example.org"), message, max_answer + 64);
}

/// The queries that answers are to: an input begins with the number of one.
constexpr std::array<std::uint16_t, 6> types{type_a, type_aaaa, type_cname, 15, 16, 33};

void take_answer(Bytes input) {
    if (input.empty()) return;
    const std::uint16_t type = types[input[0] % types.size()];
    const Bytes message = input.subspan(1);
    const std::string name = "www.example.org";
    Message asked{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    const Message packed = names::tests::packed(name);
    asked.insert(asked.end(), packed.begin(), packed.end());
    for (const unsigned byte : {0U, unsigned{type}, 0U, 1U}) asked.push_back(static_cast<std::uint8_t>(byte));
    const auto query = parse_query(asked);
    if (!query) broken("no query");

    if (const auto found = parse_answer(message, name, type)) {
        expect(found->aliases.size() <= 17, "endless aliases");
        for (auto one = found->addresses.begin(); one != found->addresses.end(); ++one) {
            expect(one->v6 == (type == type_aaaa), "an address of another family");
            expect(std::find(one + 1, found->addresses.end(), *one) == found->addresses.end(),
                   "an address that comes twice");
        }
        check_reply(answer(*query, Code::ok, found->addresses, found->ttl), asked, max_answer);
    }
    for (const std::size_t limit : {max_answer, std::size_t{65535}})
        if (const auto reply = passed_on(*query, message, limit)) check_reply(*reply, asked, limit);
}

void take_hosts(Bytes input) {
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    for (const auto& [name, addresses] : parse_hosts(text)) {
        expect(!name.empty() && name.size() <= 253 && !name.ends_with('.'), "a name that is none");
        expect(!addresses.empty(), "a name without an address");
        for (const char one : name)
            expect(one > ' ' && (one < 'A' || one > 'Z') && one != 0x7f, "a name in another form");
    }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return -1;
    const Bytes rest(data + 1, size - 1);
    switch (data[0] % 3) {
        case 0:
            take_query(rest);
            break;
        case 1:
            take_answer(rest);
            break;
        default:
            take_hosts(rest);
    }
    return 0;
}
