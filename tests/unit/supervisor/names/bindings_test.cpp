#include "supervisor/names/bindings.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/rules/rule_maker.hpp"

using namespace callgate;
using namespace callgate::names;
using rules::tests::address;

namespace {

constexpr std::int64_t hour = 3600 * std::int64_t{1'000'000'000};

/// Bindings whose clock is moved by hand; each step is a nanosecond.
struct Bench {
    std::int64_t now = 1;
    Bindings bindings{[this] { return now++; }};

    void bind(const std::string& name, std::string_view text) { bindings.bind(name, address(text)); }
    std::vector<std::string> names(std::string_view text) {
        const auto names = bindings.names_of(address(text));
        return names ? *names : std::vector<std::string>{};
    }
    std::vector<std::string> former(std::string_view text) {
        const auto names = bindings.former_names(address(text));
        return names ? *names : std::vector<std::string>{};
    }
};

using Strings = std::vector<std::string>;

std::string nth(std::size_t number) {
    return "198.51." + std::to_string(number / 256) + '.' + std::to_string(number % 256);
}

}  // namespace

TEST_CASE("an address has every name that was answered with it, and others have none") {
    Bench bench;
    bench.bind("a.example.org", "203.0.113.1");
    bench.bind("b.example.org", "203.0.113.1");
    bench.bind("a.example.org", "203.0.113.1");
    CHECK(bench.names("203.0.113.1") == Strings{"a.example.org", "b.example.org"});
    CHECK(bench.names("203.0.113.2").empty());
    CHECK(bench.former("203.0.113.1").empty());
    CHECK(bench.former("203.0.113.2").empty());
}

TEST_CASE("a mapped address is the IPv4 address") {
    Bench bench;
    rules::IpAddress mapped{.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 203, 0, 113, 1}, .v6 = true};
    bench.bindings.bind("a.example.org", mapped);
    CHECK(bench.names("203.0.113.1") == Strings{"a.example.org"});
    bench.bindings.refuse("b.example.org", mapped);
    CHECK(bench.bindings.refused_name(address("203.0.113.1")) == "b.example.org");
}

TEST_CASE("an address has a bounded number of names") {
    Bench bench;
    for (std::size_t count = 0; count < 2 * Bindings::max_names; ++count)
        bench.bind('n' + std::to_string(count) + ".example.org", "203.0.113.1");
    CHECK(bench.names("203.0.113.1").size() == Bindings::max_names);
}

TEST_CASE("beyond its bound a name loses the address that was longest unused") {
    Bench bench;
    for (std::size_t count = 0; count < Bindings::max_per_name; ++count)
        bench.bind("a.example.org", nth(count));
    CHECK(bench.names(nth(0)).size() == 1);  // a use
    bench.bind("a.example.org", nth(2));     // handed out again: a use, too
    bench.bind("a.example.org", "203.0.113.1");
    bench.bind("a.example.org", "203.0.113.2");
    CHECK(bench.names("203.0.113.2") == Strings{"a.example.org"});
    for (const std::size_t kept : {0U, 2U, 4U}) CHECK(bench.names(nth(kept)).size() == 1);
    for (const std::size_t gone : {1U, 3U}) {
        CHECK(bench.names(nth(gone)).empty());
        CHECK(bench.former(nth(gone)) == Strings{"a.example.org"});
    }
    // A look-up that leads to it again binds it again, and it counts as before.
    bench.bind("a.example.org", nth(1));
    CHECK(bench.names(nth(1)) == Strings{"a.example.org"});
    CHECK(bench.former(nth(1)).empty());
}

TEST_CASE("the addresses of another name stay where one name has too many") {
    Bench bench;
    bench.bind("b.example.org", "203.0.113.9");
    for (std::size_t count = 0; count < 4 * Bindings::max_per_name; ++count)
        bench.bind("a.example.org", nth(count));
    CHECK(bench.names("203.0.113.9") == Strings{"b.example.org"});
}

TEST_CASE("all addresses are bounded, and so are those that were dropped") {
    Bench bench;
    const auto bind_all = [&bench](std::size_t begin, std::size_t end) {
        for (std::size_t count = begin; count < end; ++count)
            bench.bind('n' + std::to_string(count / 100) + ".example.org", nth(count));
    };
    constexpr std::size_t most = Bindings::max_addresses;
    bind_all(0, most);
    CHECK(bench.names(nth(0)).size() == 1);
    bind_all(most, most + 2);
    CHECK(bench.names(nth(0)).size() == 1);
    CHECK(bench.names(nth(1)).empty());
    CHECK(bench.former(nth(1)) == Strings{"n0.example.org"});
    CHECK(bench.former(nth(3)).empty());
    bind_all(most + 2, 3 * most);
    CHECK(bench.names(nth(1)).empty());
    CHECK(bench.former(nth(1)).empty());
    CHECK(bench.former(nth(3 * most - most - 1)).size() == 1);
    CHECK(bench.names(nth(3 * most - 1)).size() == 1);
}

TEST_CASE("an address that nobody used for a day must be looked up again") {
    Bench bench;
    bench.bind("a.example.org", "203.0.113.1");
    bench.now += 23 * hour;
    CHECK(bench.names("203.0.113.1").size() == 1);
    bench.now += 23 * hour;
    CHECK(bench.names("203.0.113.1").size() == 1);
    bench.now += 25 * hour;
    CHECK(bench.names("203.0.113.1").empty());
    CHECK(bench.former("203.0.113.1") == Strings{"a.example.org"});
    CHECK(bench.names("203.0.113.1").empty());
    bench.bind("b.example.org", "203.0.113.1");
    CHECK(bench.names("203.0.113.1") == Strings{"b.example.org"});  // the old name has to show itself
}

TEST_CASE("addresses for special use are known in every form") {
    for (const std::string_view text : {"0.1.2.3",
                                        "10.0.0.1",
                                        "100.64.0.1",
                                        "127.0.0.1",
                                        "169.254.169.254",
                                        "172.31.255.255",
                                        "192.168.1.1",
                                        "198.18.0.1",
                                        "224.0.0.251",
                                        "255.255.255.255",
                                        "168.63.129.16",
                                        "::",
                                        "::1",
                                        "fd00::1",
                                        "fe80::1",
                                        "ff02::1",
                                        "::127.0.0.1",
                                        "::ffff:10.0.0.1",
                                        "64:ff9b::7f00:1",
                                        "64:ff9b:1::1",
                                        "2002:7f00:1::1"}) {
        CAPTURE(text);
        CHECK(special_use(address(text)));
    }
    for (const std::string_view text : {"203.0.113.1", "100.128.0.1", "172.32.0.1", "192.169.0.1", "1.1.1.1",
                                        "2001:db8::1", "64:ff9b::cb00:7101", "2002:cb00:7101::1"}) {
        CAPTURE(text);
        CHECK_FALSE(special_use(address(text)));
    }
}

TEST_CASE("a refused address has the name that was answered with it, until it is bound") {
    Bench bench;
    CHECK(bench.bindings.refused_name(address("10.0.0.1")).empty());
    bench.bindings.refuse("a.example.org", address("10.0.0.1"));
    CHECK(bench.bindings.refused_name(address("10.0.0.1")) == "a.example.org");
    CHECK(bench.names("10.0.0.1").empty());
    bench.bind("a.example.org", "10.0.0.1");
    CHECK(bench.bindings.refused_name(address("10.0.0.1")).empty());
}
