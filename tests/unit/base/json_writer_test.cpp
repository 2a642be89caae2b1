#include "base/json_writer.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <vector>

using namespace callgate;

namespace {

template <class Write>
std::string written(Write write) {
    return json_text([&](JsonWriter& json) { write(json); });
}

}  // namespace

TEST_CASE("commas stand between members and elements, and nowhere else") {
    const std::string text = written([](JsonWriter& json) {
        json.begin_object().begin_object("empty").end_object().begin_list("none").end_list();
        json.member("one", 1).member("yes", true).member("no", false).key("null").null();
        json.begin_list("deep")
            .begin_list()
            .end_list()
            .begin_object()
            .member("a", "b")
            .end_object()
            .end_list();
        json.key("raw").raw("[1, 2]").member("last", -5).end_object();
    });
    CHECK(text == R"({"empty":{},"none":[],"one":1,"yes":true,"no":false,"null":null,"deep":[[],{"a":"b"}],)"
                  R"("raw":[1, 2],"last":-5})");
    CHECK(nlohmann::json::accept(text));
}

TEST_CASE("lists are written from any range, empty and optional values too") {
    const std::vector<std::string> words{"a", "\"b\""}, none;
    const std::vector<int> numbers{1, 2, 3};
    CHECK(written([&](JsonWriter& json) {
              json.begin_object().member("words", words).member("none", none).member("numbers", numbers);
              json.member("absent", std::optional<int>()).member("present", std::optional<int>(7));
              json.list("squares", numbers, [&](int one) { json.value(one * one); });
              json.text_or_null("empty", "").text_or_null("full", "x").end_object();
          }) == R"({"words":["a","\"b\""],"none":[],"numbers":[1,2,3],"absent":null,"present":7,)"
                R"("squares":[1,4,9],"empty":null,"full":"x"})");
}

TEST_CASE("bytes that are not UTF-8 are given in base64 too") {
    const auto both = [](std::string_view bytes, bool always) {
        return written([&](JsonWriter& json) {
            json.begin_object().bytes("path", bytes, always).member("after", 1).end_object();
        });
    };
    CHECK(both("good", false) == R"({"path":"good","after":1})");
    CHECK(both("good", true) == R"({"path":"good","path_b64":null,"after":1})");
    for (const bool always : {false, true})
        CHECK(both("b\xff", always) == R"({"path":"b\\xff","path_b64":"Yv8=","after":1})");
}

TEST_CASE("a caller's own value and a new line take part in the commas") {
    CHECK(written([](JsonWriter& json) {
              json.begin_object();
              json.key("a").slot() << "1.5";
              json.new_line().member("b", 2).new_line();
              json.list("c", std::vector{1, 2}, [&](int one) { json.slot() << one; });
              json.end_object();
          }) == "{\"a\":1.5,\n\"b\":2,\n\"c\":[1,2]}");
}

TEST_CASE("no byte that an attacker chooses ends a text") {
    for (int byte = 0; byte < 256; ++byte) {
        const std::string bytes{'x', static_cast<char>(byte), 'y'};
        const std::string text =
            written([&](JsonWriter& json) { json.begin_object().member("t", bytes).end_object(); });
        const auto parsed = nlohmann::json::parse(text, nullptr, false);
        REQUIRE(parsed.is_object());
        CHECK(parsed.size() == 1);
        if (byte < 128) CHECK(parsed["t"].get<std::string>() == bytes);
    }
}
