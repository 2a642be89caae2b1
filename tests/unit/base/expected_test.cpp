#include "base/expected.hpp"

#include <doctest/doctest.h>

#include <memory>

using namespace callgate;

namespace {

Expected<std::string> named(bool good) {
    if (!good) return Problem{"no name"};
    return std::string("a name");
}

Expected<void> checked(bool good) {
    if (!good) return Problem{"not good"};
    return {};
}

}  // namespace

TEST_CASE("an Expected holds a value, or a problem in words") {
    REQUIRE(named(true));
    CHECK(*named(true) == "a name");
    REQUIRE_FALSE(named(false));
    CHECK(named(false).error().text == "no name");
    CHECK(checked(true).has_value());
    CHECK(checked(false).error().text == "not good");
    CHECK_THROWS_WITH(static_cast<void>(named(false).value()), "no name");
}
