// Users by getent against the C library of this program, which asks the same services by itself.
#include "supervisor/host/name_service.hpp"

#include <doctest/doctest.h>
#include <pwd.h>
#include <unistd.h>

using namespace callgate;

TEST_CASE("a user's home is the one that the machine has for him") {
    const passwd* const root = ::getpwuid(0);
    REQUIRE(root != nullptr);
    CHECK(home_of(0) == root->pw_dir);
    constexpr uid_t nobody_at_all = 4000000000U;
    REQUIRE(::getpwuid(nobody_at_all) == nullptr);
    CHECK(home_of(nobody_at_all).empty());
}
