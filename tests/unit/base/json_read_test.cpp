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
    // So much memory as many values take is not spent on a text that a job chose.
    const auto many = [](std::size_t count) {
        std::string text = "[";
        for (std::size_t value = 1; value < count; ++value) text += "[],";
        return text + "0]";
    };
    CHECK(json_read::parse(many(400'000)).size() == 400'000);
    CHECK(json_read::parse(many(600'000)).is_null());
    CHECK(json_read::parse('"' + many(600'000) + '"').is_string());
    CHECK(json_read::parse("[1]").is_array());
    CHECK(json_read::parse_object("[1]").is_null());
    for (const char* const wrong : {"", "{", "{}{}", "\xff"}) CHECK(json_read::parse(wrong).is_null());
}
