#include "supervisor/jobs/http/request.hpp"

#include <doctest/doctest.h>

namespace {

using namespace callgate::jobs::http;

int status_of(std::string_view text) {
    const auto head = parse_head(text);
    const auto* const refused = std::get_if<Refused>(&head);
    return refused == nullptr ? 200 : refused->status;
}

int with(std::string_view fields) {
    return status_of("POST /a HTTP/1.1\r\nHost: x\r\n" + std::string(fields) + "\r\n");
}

struct Read {
    bool whole;
    int status;
    std::size_t taken;
    std::string bytes;
    bool operator==(const Read&) const = default;
};

/// Reads a chunked body in pieces of this size.
Read chunked(std::string_view text, std::size_t piece = 1000) {
    Head head;
    head.chunked = true;
    Body body(head);
    std::size_t taken = 0;
    while (taken < text.size() && !body.whole() && !body.refused())
        taken += body.take(text.substr(taken, piece));
    return {body.whole(), body.refused() ? body.refused()->status : 200, taken, body.bytes()};
}

TEST_CASE("a head is read as it is written") {
    const auto read = parse_head(
        "POST /a/b?c=%20 HTTP/1.1\r\nhOST: x:80\r\nContent-Length: \t12 \r\nX-Y:\r\nExpect: "
        "100-Continue\r\n\r\n");
    const Head& head = std::get<Head>(read);
    CHECK(head.method == "POST");
    CHECK(head.target == "/a/b?c=%20");
    CHECK(head.field("host") == "x:80");
    CHECK(head.field("x-y") == "");
    CHECK(!head.field("y"));
    CHECK(head.length == 12);
    CHECK((head.framed && !head.chunked && head.keeps_open && head.expects_continue));
}

TEST_CASE("a connection stays open where both sides say so") {
    const auto open = [](std::string_view first, std::string_view field) {
        const auto read = parse_head(std::string(first) + "\r\nHost: x\r\n" + std::string(field) + "\r\n");
        return std::get<Head>(read).keeps_open;
    };
    CHECK(open("GET / HTTP/1.1", ""));
    CHECK(open("GET / HTTP/1.1", "Connection: Keep-Alive\r\n"));
    CHECK(!open("GET / HTTP/1.1", "Connection: upgrade , CLOSE\r\n"));
    CHECK(!open("GET / HTTP/1.0", ""));
}

TEST_CASE("a body has one framing, written in one way") {
    CHECK(with("Content-Length: 0\r\n") == 200);
    CHECK(with("Transfer-Encoding: chunked\r\n") == 200);
    CHECK(with("Content-Length: 67108864\r\n") == 200);
    CHECK(with("Content-Length: 67108865\r\n") == 413);
    for (const char* const one : {"Content-Length: 1\r\nContent-Length: 1\r\n",
                                  "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
                                  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                                  "Content-Length: 1, 1\r\n",
                                  "Content-Length: +1\r\n",
                                  "Content-Length: -1\r\n",
                                  "Content-Length: 01\r\n",
                                  "Content-Length: 0x1\r\n",
                                  "Content-Length: \r\n",
                                  "Content-Length: 1 1\r\n",
                                  "Content-Length: 18446744073709551616\r\n",
                                  "Content-Length : 1\r\n",
                                  "Content-Length\r\n",
                                  "Transfer-Encoding: Chunked\r\n",
                                  "Transfer-Encoding: xchunked\r\n",
                                  "Transfer-Encoding: gzip, chunked\r\n",
                                  "Transfer-Encoding: chunked,\r\n",
                                  "Transfer-Encoding: identity\r\n",
                                  "Transfer-Encoding:\r\n",
                                  "Transfer-Encoding:\r\n chunked\r\n"}) {
        CAPTURE(one);
        CHECK(with(one) == 400);
    }
    CHECK(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
}

TEST_CASE("lines, names and values hold nothing that another reader could end or drop") {
    for (const char* const one :
         {"X: a\n", "X: a\rb\r\n", "X: \x7f\r\n", "X: \xe9\r\n", "X: \x01\r\n", "X Y: a\r\n", ": a\r\n",
          " X: a\r\n", "X\xe9: a\r\n", "Host: y\r\n", "Trailer: X\r\n", "Connection: host\r\n",
          "X-HTTP-Method-Override: GET\r\n", "Authorization: a\r\nauthorization: b\r\n"}) {
        CAPTURE(one);
        CHECK(with(one) == 400);
    }
    using namespace std::string_literals;
    CHECK(with("X: a\0b\r\n"s) == 400);
    CHECK(with("Expect: else\r\n") == 417);
    for (const char* const one : {"GET / HTTP/1.1 ", " GET / HTTP/1.1", "GET  / HTTP/1.1", "GET /\tHTTP/1.1",
                                  "GET /", "G(T / HTTP/1.1", "GET http://x/ HTTP/1.1", "GET * HTTP/1.1",
                                  "GET /#a HTTP/1.1", "GET /\\ HTTP/1.1", "CONNECT x:1 HTTP/1.1"}) {
        CAPTURE(one);
        CHECK(status_of(std::string(one) + "\r\nHost: x\r\n\r\n") == 400);
    }
    CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == 400);
    CHECK(status_of("GET / HTTP/2.0\r\nHost: x\r\n\r\n") == 505);
    std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
    for (int count = 0; count < 100; ++count) many += "X: y\r\n";
    CHECK(status_of(many + "\r\n") == 431);
}

TEST_CASE("what can become no head is refused before its end") {
    CHECK(!no_head(""));
    CHECK(!no_head("GET / HTTP/1.1\r"));
    CHECK(no_head("\r"));
    CHECK(no_head("GET /\n"));
    CHECK(no_head("GET\rX"));
    CHECK(no_head("\x16\x03\x01"));
}

TEST_CASE("chunks are read in any pieces, and nothing after the last") {
    const std::string text = "5\r\nabcde\r\nA\r\n0123456789\r\n0\r\n\r\nGET";
    const Read expected{true, 200, text.size() - 3, "abcde0123456789"};
    for (std::size_t piece = 1; piece < text.size(); ++piece) CHECK(chunked(text, piece) == expected);
    CHECK(!chunked("5\r\nabc").whole);
}

TEST_CASE("a chunk that two readers could delimit differently is refused") {
    for (const char* const one :
         {"05\r\nabcde\r\n", "5;a=b\r\nabcde\r\n", "5 \r\nabcde\r\n", "0x5\r\n", "+5\r\n", "-5\r\n", "\r\n",
          "g\r\n", "5\nabcde\n", "5\rabcde", "5\r\nabcdef\r\n", "5\r\nabcde\n", "1\r\na\r\n0\r\nX: y\r\n\r\n",
          "00\r\n\r\n", "0\r\n\n", "100000000\r\n"}) {
        CAPTURE(one);
        CHECK(chunked(one).status == 400);
        CHECK(chunked(one, 1).status == 400);
    }
    CHECK(chunked("4000001\r\n").status == 413);
    CHECK(chunked("ffffffff\r\n").status == 413);
}

}  // namespace
