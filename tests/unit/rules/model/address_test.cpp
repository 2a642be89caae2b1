#include "rules/model/address.hpp"

#include <doctest/doctest.h>

namespace rules = callgate::rules;

namespace {

std::string address_again(std::string_view text) {
    const auto address = rules::parse_address(text);
    return address ? rules::text(*address) : "error: " + address.error().text;
}

std::string block_again(std::string_view text) {
    const auto block = rules::parse_cidr(text);
    return block ? rules::text(*block) : "error: " + block.error().text;
}

bool contains(std::string_view block, std::string_view address) {
    const auto parsed = rules::parse_cidr(block);
    const auto one = rules::parse_address(address);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().text);
    REQUIRE_MESSAGE(one.has_value(), one.error().text);
    return parsed->contains(*one);
}

std::string ports_again(std::string_view text) {
    const auto ports = rules::parse_ports(text);
    CHECK(ports.has_value() == ports.error().text.empty());
    return ports ? rules::text(*ports) : "error";
}

std::string host_again(std::string_view text) {
    const auto host = rules::parse_host(text);
    CHECK(host.has_value() == host.error().text.empty());
    return host ? host->text : "error";
}

std::string host_error(std::string_view text) {
    const auto host = rules::parse_host(text);
    CHECK_FALSE(host.has_value());
    return host.error().text;
}

std::string destination_again(std::string_view text) {
    const auto destination = rules::parse_destination(text);
    if (!destination) return "error";
    const auto* host = std::get_if<rules::HostPattern>(&destination->host);
    std::string result = host != nullptr ? host->text : rules::text(std::get<rules::Cidr>(destination->host));
    if (destination->port) result += " " + rules::text(*destination->port);
    if (destination->protocol) result += *destination->protocol == rules::Protocol::udp ? " udp" : " tcp";
    return result;
}

}  // namespace

TEST_CASE("addresses are read in full form only and printed in their shortest") {
    CHECK(address_again("192.0.2.1") == "192.0.2.1");
    CHECK(address_again("2001:DB8:0:0::1") == "2001:db8::1");
    CHECK(address_again("::") == "::");
    for (const char* wrong :
         {"", "127.1", "1.2.3.4.5", "256.0.0.1", "0x7f.0.0.1", "010.0.0.1", " 1.2.3.4", "1.2.3.4 ", "[::1]",
          "1::2::3", ":::", "example.org", "1.2.3", "::ffff:1.2.3.400"}) {
        CAPTURE(wrong);
        CHECK(address_again(wrong).starts_with("error: "));
    }
    CHECK(address_again(std::string_view("1.2.3.4\0.5", 10)).starts_with("error: "));
    CHECK(address_again(std::string(5000, '1')).size() < 200);
}

TEST_CASE("an IPv4-mapped IPv6 address is the IPv4 address") {
    CHECK(address_again("::ffff:192.0.2.1") == "192.0.2.1");
    CHECK(address_again("::ffff:c000:201") == "192.0.2.1");
    CHECK(address_again("::192.0.2.1") == "::192.0.2.1");
    const std::array<std::uint8_t, 16> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    const rules::IpAddress address = rules::make_ipv6(mapped);
    CHECK_FALSE(address.v6);
    CHECK(rules::text(address) == "127.0.0.1");
}

TEST_CASE("a scope id is refused with advice") {
    CHECK(address_again("fe80::1%eth0").find("scope id") != std::string::npos);
    CHECK(address_again("fe80::1%eth0").find("\"fe80::1\"") != std::string::npos);
    CHECK(block_again("fe80::%1/64").find("scope id") != std::string::npos);
}

TEST_CASE("blocks keep their prefix and refuse bits beyond it") {
    CHECK(block_again("10.0.0.0/8") == "10.0.0.0/8");
    CHECK(block_again("10.1.2.3") == "10.1.2.3");
    CHECK(block_again("10.1.2.3/32") == "10.1.2.3");
    CHECK(block_again("0.0.0.0/0") == "0.0.0.0/0");
    CHECK(block_again("2001:db8::/33") == "2001:db8::/33");
    CHECK(block_again("::ffff:10.0.0.0/104") == "10.0.0.0/8");
    CHECK(block_again("::ffff:0:0/96") == "0.0.0.0/0");
    CHECK(block_again("10.0.0.1/8").find("write 10.0.0.0/8") != std::string::npos);
    for (const char* wrong : {"10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "10.0.0.0/8/8",
                              "::/129", "/8", "10.0.0.0/ 8", "10.0.0.0/+8", "10.0.0.0/99999999999"}) {
        CAPTURE(wrong);
        CHECK(block_again(wrong).starts_with("error: "));
    }
}

TEST_CASE("a block contains what shares its prefix, in its own family") {
    CHECK(contains("10.0.0.0/8", "10.255.255.255"));
    CHECK_FALSE(contains("10.0.0.0/8", "11.0.0.0"));
    CHECK(contains("192.0.2.128/25", "192.0.2.128"));
    CHECK_FALSE(contains("192.0.2.128/25", "192.0.2.127"));
    CHECK(contains("192.0.2.1", "192.0.2.1"));
    CHECK_FALSE(contains("192.0.2.1", "192.0.2.0"));
    CHECK(contains("0.0.0.0/0", "255.255.255.255"));
    CHECK(contains("2001:db8::/32", "2001:db8:ffff::1"));
    CHECK_FALSE(contains("2001:db8::/32", "2001:db9::1"));
    CHECK(contains("fe80::/10", "febf::1"));
    CHECK_FALSE(contains("fe80::/10", "fec0::1"));
    CHECK(contains("10.0.0.0/8", "::ffff:10.1.1.1"));
    CHECK_FALSE(contains("::/0", "10.0.0.1"));
    CHECK_FALSE(contains("0.0.0.0/0", "::1"));
}

TEST_CASE("ports are decimal numbers or ranges that run forward") {
    CHECK(ports_again("443") == "443");
    CHECK(ports_again("0") == "0");
    CHECK(ports_again("8000-8999") == "8000-8999");
    CHECK(ports_again("1-65535") == "1-65535");
    CHECK(ports_again("80-80") == "80");
    for (const char* wrong :
         {"", "-", "65536", "80-", "-80", "90-80", "080", "+80", "8 0", "http", "1-2-3", "99999999"}) {
        CAPTURE(wrong);
        CHECK(ports_again(wrong) == "error");
    }
}

TEST_CASE("host names are folded and validated") {
    CHECK(host_again("Packages.Example.ORG") == "packages.example.org");
    CHECK(host_again("localhost") == "localhost");
    CHECK(host_again("example.org.") == "example.org");
    CHECK(host_again("*.files.example.net") == "*.files.example.net");
    CHECK(host_again("xn--bcher-kva.example") == "xn--bcher-kva.example");
    CHECK(host_again("_dns.3com.example") == "_dns.3com.example");
    for (const char* wrong :
         {"",    ".",   "*",    "*.",  "a..b",      ".a",    "-a.b",       "a-.b",       "a*.b",  "*.*.b",
          "a b", "a/b", "a:80", "b.*", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "a.0x1", "a\tb"}) {
        CAPTURE(wrong);
        CHECK(host_again(wrong) == "error");
    }
    CHECK(host_again(std::string(63, 'a') + ".example") != "error");
    CHECK(host_again(std::string(64, 'a') + ".example") == "error");
    CHECK(host_again(std::string(100000, 'a')) == "error");
    CHECK(host_again(std::string_view("a\0b", 3)) == "error");
}

TEST_CASE("a refused host says what to write") {
    CHECK(host_error("b\xc3\xbc"
                     "cher.example")
              .find("xn--") != std::string::npos);
    CHECK(host_error("*").find("leave `host` out") != std::string::npos);
    CHECK(host_error("127.1").find("`address`") != std::string::npos);
}

TEST_CASE("a URL is never taken apart, and its host and port are named") {
    const auto destination_error = [](std::string_view text) {
        const auto found = rules::parse_destination(text);
        return found ? std::string("good") : found.error().text;
    };
    CHECK(destination_error("https://example.com/x") ==
          R"("https://example.com/x" is a URL: write its host and port alone, example.com:443)");
    CHECK(destination_error("http://user:word@example.com:8080") ==
          R"("http://user:word@example.com:8080" is a URL: write its host and port alone, example.com:8080)");
    CHECK(destination_error("postgres://[::1]/x").find("is a URL: write its host and port alone") !=
          std::string::npos);
    const auto block = rules::parse_cidr("https://192.0.2.7/x");
    REQUIRE(!block);
    CHECK(block.error().text ==
          R"("https://192.0.2.7/x" is a URL: write "address": "192.0.2.7", "port": 443)");
}

TEST_CASE("a suffix pattern says that it is one") {
    const auto problem = [](std::string_view text) { return rules::parse_host(text).error().text; };
    CHECK(problem("https://api.example.org/v1") ==
          R"("https://api.example.org/v1" is a URL: write "host": "api.example.org", "port": 443)");
    CHECK(problem("http://u:p@api.example.org:81").find(R"("host": "api.example.org", "port": 81)") !=
          std::string::npos);
    CHECK(problem("api.example.org:443") ==
          R"("api.example.org:443" has a port: write "host": "api.example.org", "port": 443)");
    CHECK(problem("api.example.org/v1").find(R"(has a path: write "host": "api.example.org")") !=
          std::string::npos);
    CHECK(problem("api.example.org:x").find("is not a host name") != std::string::npos);
    CHECK(rules::parse_host("*.example.org").value().suffix);
    CHECK_FALSE(rules::parse_host("example.org").value().suffix);
}

TEST_CASE("destinations of options name host, port and protocol") {
    CHECK(destination_again("example.org") == "example.org");
    CHECK(destination_again("example.org:443") == "example.org 443");
    CHECK(destination_again("*.example.org:8000-8999/udp") == "*.example.org 8000-8999 udp");
    CHECK(destination_again("127.0.0.1:80") == "127.0.0.1 80");
    CHECK(destination_again("10.0.0.0/8:443/tcp") == "10.0.0.0/8 443 tcp");
    CHECK(destination_again("::1") == "::1");
    CHECK(destination_again("2001:db8::/32") == "2001:db8::/32");
    CHECK(destination_again("[::1]:443") == "::1 443");
    CHECK(destination_again("[2001:db8::/32]:53/udp") == "2001:db8::/32 53 udp");
    CHECK(destination_again("fe80::1/udp") == "fe80::1 udp");
    for (const char* wrong :
         {"", ":80", "host:", "host:http", "[::1", "[::1]80", "[::1]:", "[host]:1", "127.1:80",
          "1.2.3.4:80:90", "host/sctp", "host:80/udp/udp", "fe80::1%lo", "/udp"}) {
        CAPTURE(wrong);
        CHECK(destination_again(wrong) == "error");
    }
}

TEST_CASE("endpoints print so that a port cannot be taken for a part of the address") {
    CHECK(rules::text(rules::Endpoint{rules::parse_address("203.0.113.4").value(), 443}) ==
          "203.0.113.4:443");
    CHECK(rules::text(rules::Endpoint{rules::parse_address("2001:db8::1").value(), 53}) ==
          "[2001:db8::1]:53");
}
