#include "supervisor/names/hosts.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/unit/rules/rule_maker.hpp"

using namespace callgate;
using namespace callgate::names;
using rules::tests::address;

TEST_CASE("lines of hosts give names their addresses, as the C library reads them") {
    const auto all = parse_hosts(
        "# a comment\n"
        "127.0.0.1\tlocalhost\n"
        "::1 localhost ip6-localhost # the same\n"
        "  203.0.113.7  WWW.Example.ORG.  short\r\n"
        "203.0.113.7 short\n"
        "203.0.113.8 short\n"
        "fe80::1%eth0 link\n"
        "203.0.113.9 last");
    CHECK(all.size() == 6);
    CHECK(all.at("localhost") == std::vector{address("127.0.0.1"), address("::1")});
    CHECK(all.at("www.example.org") == std::vector{address("203.0.113.7")});
    CHECK(all.at("short") == std::vector{address("203.0.113.7"), address("203.0.113.8")});
    CHECK(all.at("link") == std::vector{address("fe80::1")});
    CHECK(all.contains("ip6-localhost"));
    CHECK(all.contains("last"));
}

TEST_CASE("lines that say nothing sensible are left out, and others stay") {
    const auto all = parse_hosts(
        "\n\n203.0.113.7\nnot-an-address name\n203.0.113 name\n203.0.113.7 *.example.org a..b "
        "-x good\n#203.0.113.7 commented\n203.0.113.7#glued\n");
    CHECK(all.contains("good"));
    for (const std::string name : {"name", "*.example.org", "a..b", "commented", "glued"})
        CHECK_FALSE(all.contains(name));
}

TEST_CASE("a text has a bounded number of names") {
    std::string text;
    for (int count = 0; count < 70'000; ++count)
        text += "203.0.113.7 n" + std::to_string(count) + ".example.org\n";
    CHECK(parse_hosts(text).size() == 65'536);
}

TEST_CASE("names of the local network are known by their form") {
    for (const std::string_view name : {"intranet", "printer.local", "a.b.local", "db.internal"})
        CHECK(local_name(name));
    for (const std::string_view name :
         {"example.org", "local.example.org", "internal.test", "notlocal.org", "a.xlocal"})
        CHECK_FALSE(local_name(name));
}

TEST_CASE("a rule names the hosts of its conditions") {
    rules::Rule rule = rules::tests::rule("one", rules::Action::allow, rules::Operation::connect);
    CHECK_FALSE(named_by(&rule, "www.example.org"));
    rule.when.host = {{"www.example.org", false}, {"*.example.net", true}};
    CHECK(named_by(&rule, "www.example.org"));
    CHECK(named_by(&rule, "a.b.example.net"));
    for (const std::string_view name : {"example.net", "a.www.example.org", "evilexample.net", ""})
        CHECK_FALSE(named_by(&rule, name));
    CHECK_FALSE(named_by(nullptr, "www.example.org"));
}

TEST_CASE("the mark of a file changes when it is written, replaced or gone") {
    std::string path = "/tmp/callgate-mark-XXXXXX";
    const int file = ::mkstemp(path.data());
    REQUIRE(file >= 0);
    const std::string empty = mark_of(path.c_str());
    CHECK(mark_of(path.c_str()) == empty);
    REQUIRE(::write(file, "x", 1) == 1);
    const std::string written = mark_of(path.c_str());
    CHECK(written != empty);
    const std::string other = path + ".new";
    std::FILE* const fresh = std::fopen(other.c_str(), "w");
    REQUIRE(fresh != nullptr);
    std::fputs("x", fresh);
    std::fclose(fresh);
    REQUIRE(::rename(other.c_str(), path.c_str()) == 0);
    CHECK(mark_of(path.c_str()) != written);
    REQUIRE(::unlink(path.c_str()) == 0);
    CHECK(mark_of(path.c_str()) == "absent");
    ::close(file);
}

TEST_CASE("the machine's own names are there whatever its file says") {
    Hosts hosts;
    CHECK(hosts.refresh());
    CHECK_FALSE(hosts.refresh());
    REQUIRE(hosts.find("localhost") != nullptr);
    REQUIRE(hosts.find("a.b.localhost") != nullptr);
    CHECK(hosts.find("a.b.localhost")->size() == 2);
    CHECK(hosts.find("localhost.example.org") == nullptr);
}
