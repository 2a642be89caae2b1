#include "base/json_read.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace callgate;

TEST_CASE("JSON of at most 256 levels is read") {
    const auto nested = [](std::size_t levels) {
        return "{\"a\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + '}';
    };
    CHECK(json_read::parse_object(nested(256)).is_object());
    CHECK(json_read::parse_object(nested(257)).is_null());
    CHECK(json_read::parse_object(nested(1'000'000)).is_null());
    const std::string brackets(300, '[');
    CHECK(json_read::parse_object("{\"" + brackets + R"(\"":"\\","b":")" + brackets + "\"}").size() == 2);
    CHECK(json_read::parse_object(R"({"\\":)" + brackets + std::string(300, ']') + '}').is_null());
    CHECK(json_read::parse("[1]").is_array());
    CHECK(json_read::parse_object("[1]").is_null());
    for (const char* const wrong : {"", "{", "{}{}", "\xff"}) CHECK(json_read::parse(wrong).is_null());
}
