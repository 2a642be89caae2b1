// Names by getent against the C library of this program, which asks the same services by itself.
#include "supervisor/host/name_service.hpp"

#include <doctest/doctest.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "rules/model/address.hpp"

using namespace callgate;

TEST_CASE("a user's home is the one that the machine has for him") {
    const passwd* const root = ::getpwuid(0);
    REQUIRE(root != nullptr);
    CHECK(home_of(0) == root->pw_dir);
    constexpr uid_t nobody_at_all = 4000000000U;
    REQUIRE(::getpwuid(nobody_at_all) == nullptr);
    CHECK(home_of(nobody_at_all).empty());
}

TEST_CASE("a host's addresses, each once, none of what is no name") {
    constexpr std::array<std::uint8_t, 4> loopback{127, 0, 0, 1};
    const auto local = addresses_of("localhost");
    CHECK(std::count(local.begin(), local.end(), rules::make_ipv4(loopback)) == 1);
    const auto literal = addresses_of("192.0.2.7");
    REQUIRE(literal.size() == 1);
    CHECK(rules::text(literal.front()) == "192.0.2.7");
    CHECK(addresses_of("--help").empty());
}
