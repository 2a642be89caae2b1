#include "relay/client_hello.hpp"

#include <doctest/doctest.h>

#include "tests/unit/relay/tls_bytes.hpp"

namespace callgate::relay {

namespace {

using State = ClientHello::State;

TEST_CASE("a client hello's name is read, whatever pieces it comes in") {
    const std::string bytes = test::client_hello("api.example.org");
    for (std::size_t size = 0; size < bytes.size(); ++size)
        CHECK(read_client_hello(bytes.substr(0, size)).state == State::incomplete);
    const ClientHello hello = read_client_hello(bytes);
    CHECK(hello.state == State::named);
    CHECK(hello.name == "api.example.org");
    CHECK(hello.length == bytes.size());
}

TEST_CASE("a client hello in records of one byte each is read as a whole") {
    const std::string bytes = test::in_records(test::hello_message("api.example.org"), 1);
    const ClientHello hello = read_client_hello(bytes);
    CHECK(hello.state == State::named);
    CHECK(hello.name == "api.example.org");
    CHECK(hello.length == bytes.size());
}

TEST_CASE("what follows a hello's records is not part of it") {
    const std::string bytes = test::client_hello("a.example.org");
    CHECK(read_client_hello(bytes + "more").length == bytes.size());
}

TEST_CASE("names are compared in small letters and without a final dot") {
    CHECK(read_client_hello(test::client_hello("API.Example.ORG.")).name == "api.example.org");
}

TEST_CASE("a hello without a name, and one without extensions, have no name") {
    CHECK(read_client_hello(test::in_records(test::hello_message({}), 16384)).state == State::unnamed);
    CHECK(read_client_hello(test::in_records(test::hello_without_extensions(), 16384)).state ==
          State::unnamed);
}

TEST_CASE("a second name is refused, because the server could read the other one") {
    const std::string two = test::name_extension("a.example.org") + test::name_extension("b.example.org");
    CHECK(read_client_hello(test::in_records(test::hello_with(two), 16384)).state == State::foreign);
}

TEST_CASE("a hello with an encrypted one inside hides its name, wherever that stands") {
    const std::string shown = test::name_extension("a.example.org");
    for (const std::size_t type : {0xfe08U, 0xfe0dU})
        for (const std::string& both :
             {shown + test::extension(type, "inner"), test::extension(type, "") + shown})
            CHECK(read_client_hello(test::in_records(test::hello_with(both), 16384)).state == State::hidden);
    const std::string twice = test::extension(0xfe0d, "") + shown + shown;
    CHECK(read_client_hello(test::in_records(test::hello_with(twice), 16384)).state == State::foreign);
    for (const std::size_t other : {0xfe07U, 0xfe0eU})
        CHECK(read_client_hello(test::in_records(test::hello_with(shown + test::extension(other, "")), 16384))
                  .state == State::named);
}

TEST_CASE("a message behind the hello in its record is refused") {
    const std::string message = test::hello_message("a.example.org") + test::hello_message("b.example.org");
    CHECK(read_client_hello(test::in_records(message, 16384)).state == State::foreign);
}

TEST_CASE("other protocols are foreign from their first byte") {
    CHECK(read_client_hello("GET / HTTP/1.1\r\n").state == State::foreign);
    CHECK(read_client_hello("SSH-2.0-x\r\n").state == State::foreign);
    CHECK(read_client_hello(std::string("\x80\x2e\x01\x00\x02", 5)).state == State::foreign);
    CHECK(read_client_hello(std::string("\x16\x02\x00\x00\x05hello", 10)).state == State::foreign);
}

TEST_CASE("a hello beyond the longest one is foreign") {
    const std::string fill = test::extension(21, std::string(60000, '\0'));
    std::string message = test::hello_with(fill + test::name_extension("a.example.org"));
    CHECK(read_client_hello(test::in_records(message, 16384)).state == State::named);
    message = std::string("\x01\xff\xff\xff", 4) + std::string(longest_hello, '\0');
    CHECK(read_client_hello(test::in_records(message, 16384)).state == State::foreign);
}

TEST_CASE("lengths that lead beyond the message are foreign") {
    const std::string message = test::hello_message("a.example.org");
    for (std::size_t at = 38; at < message.size(); ++at) {
        std::string wrong = message;
        wrong[at] = '\xff';
        const ClientHello hello = read_client_hello(test::in_records(wrong, 16384));
        CHECK((hello.state != State::named || hello.name.find('\xff') != std::string::npos ||
               hello.name == "a.example.org"));
    }
}

TEST_CASE("a server's request for a second hello is told from its hello") {
    const std::string retry = test::in_records(test::server_hello(true), 16384);
    for (std::size_t size = 0; size < retry.size(); ++size)
        CHECK(read_first_answer(retry.substr(0, size)) == FirstAnswer::incomplete);
    CHECK(read_first_answer(retry) == FirstAnswer::retry);
    CHECK(read_first_answer(test::in_records(test::server_hello(true), 1)) == FirstAnswer::retry);
    CHECK(read_first_answer(test::in_records(test::server_hello(false), 16384)) == FirstAnswer::other);
    CHECK(read_first_answer(std::string("\x15\x03\x03\x00\x02\x02\x28", 7)) == FirstAnswer::other);
    CHECK(read_first_answer("HTTP/1.1 400\r\n") == FirstAnswer::other);
}

}  // namespace

}  // namespace callgate::relay
