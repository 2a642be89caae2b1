#include "base/escape.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "supervisor/audit/write/redact.hpp"
#include "tests/unit/rules/allocations.hpp"

using namespace callgate;
using namespace callgate::audit;

namespace {

std::string base64(std::string_view bytes) {
    Buffer out;
    append_base64(out, bytes);
    return std::string(out.view());
}

std::string one_line(std::vector<std::string> command) {
    std::string text;
    for (const std::string& argument : redact(command)) text += (text.empty() ? "" : " ") + argument;
    return text;
}

}  // namespace

TEST_CASE("a JSON string gives back every character that is UTF-8") {
    for (char32_t point = 0; point <= 0x10FFFF; point += point < 0x3000 ? 1 : 37) {
        if (point >= 0xD800 && point <= 0xDFFF) continue;
        std::string bytes;
        if (point < 0x80) {
            bytes = {static_cast<char>(point)};
        } else if (point < 0x800) {
            bytes = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
        } else if (point < 0x10000) {
            bytes = {static_cast<char>(0xE0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 0x3F)),
                     static_cast<char>(0x80 | (point & 0x3F))};
        } else {
            bytes = {static_cast<char>(0xF0 | point >> 18), static_cast<char>(0x80 | (point >> 12 & 0x3F)),
                     static_cast<char>(0x80 | (point >> 6 & 0x3F)), static_cast<char>(0x80 | (point & 0x3F))};
        }
        const std::string text = json_string(bytes);
        REQUIRE(nlohmann::json::parse(text).get<std::string>() == bytes);
        if (is_hidden(point)) REQUIRE(text.substr(0, 3) == "\"\\u");
    }
}

TEST_CASE("control, bidirectional, zero-width and other format characters are escaped") {
    for (const std::string_view hidden :
         {"\n",     "\r",     "\x1b",   "\x7f",   "\xc2\x9b", "\u202a",     "\u202e",
          "\u2066", "\u2069", "\u200e", "\u200f", "\u061c",   "\u200b",     "\u200d",
          "\u2028", "\u2029", "\ufeff", "\u00ad", "\u2060",   "\U000e0041", "\u3164"}) {
        const std::string text = json_string(hidden);
        INFO(text);
        CHECK(text.find_first_not_of("\"\\u0123456789abcdef") == std::string::npos);
        CHECK(terminal_safe(hidden).front() == '\\');
    }
    CHECK(json_string("\U0001d173") == R"("\ud834\udd73")");
    CHECK(json_string("grün 漢字 🙂") == "\"grün 漢字 🙂\"");
}

TEST_CASE("bytes that are not UTF-8 are shown as \\xNN and reported") {
    for (const std::string_view bad : {"\xff", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80",
                                       "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
        Buffer out;
        CHECK_FALSE(append_json_string(out, bad));
        CHECK_FALSE(is_utf8(bad));
        const auto shown = nlohmann::json::parse(out.view()).get<std::string>();
        CHECK(shown.substr(0, 2) == "\\x");
        CHECK(terminal_safe(bad) == shown);
    }
    CHECK(json_string("a\xff/b") == R"("a\\xff/b")");
}

TEST_CASE("base64 is RFC 4648's") {
    CHECK(base64("") == "");
    CHECK(base64("f") == "Zg==");
    CHECK(base64("fo") == "Zm8=");
    CHECK(base64("foo") == "Zm9v");
    CHECK(base64("foobar") == "Zm9vYmFy");
    CHECK(base64("\xff\xfe\xfd") == "//79");
    CHECK(decode_base64("") == "");
    for (const char* bytes : {"f", "fo", "foo", "foobar", "\xff\xfe\xfd"})
        CHECK(decode_base64(base64(bytes)) == bytes);
    CHECK(decode_base64("Zg") == "f");
    CHECK_FALSE(decode_base64("Z*=="));
}

TEST_CASE("a shell reads a quoted word as one word of the same bytes") {
    CHECK(shell_quote("/home/u/.ssh/id_ed25519") == "/home/u/.ssh/id_ed25519");
    CHECK(shell_quote("secrets=/a") == "secrets=/a");
    CHECK(shell_quote("") == "''");
    CHECK(shell_quote("=ls") == "'=ls'");
    CHECK(shell_quote("a b;$(x)`y`") == "'a b;$(x)`y`'");
    CHECK(shell_quote("it's") == R"('it'\''s')");
    CHECK(shell_quote("a\n'\\\xff") == R"($'a\x0a\'\\\xff')");
    CHECK(shell_quote("ü") == R"($'\xc3\xbc')");
}

TEST_CASE("secrets in arguments are redacted, what is no secret stays") {
    CHECK(one_line({"x", "--password", "hunter2", "y"}) == "x --password [redacted] y");
    CHECK(one_line({"x", "--password=hunter2"}) == "x --password=[redacted]");
    CHECK(one_line({"x", "--api-key", "k1"}) == "x --api-key [redacted]");
    CHECK(one_line({"curl", "-H", "Authorization: Bearer abc"}) == "curl -H Authorization: [redacted]");
    CHECK(one_line({"curl", "-HX-Api-Key: abc"}) == "curl -HX-Api-Key: [redacted]");
    CHECK(one_line({"curl", "-u", "me:pw"}) == "curl -u me:[redacted]");
    CHECK(one_line({"env", "AWS_SECRET_ACCESS_KEY=abc", "GH_TOKEN=t", "LANG=C"}) ==
          "env AWS_SECRET_ACCESS_KEY=[redacted] GH_TOKEN=[redacted] LANG=C");
    CHECK(one_line({"git", "clone", "https://me:pw@host/x"}) == "git clone https://me:[redacted]@host/x");
    CHECK(one_line({"git", "clone", "https://ghp_1@host/x"}) == "git clone https://[redacted]@host/x");
    CHECK(one_line({"curl", "http://h/p?token=abc&page=2"}) == "curl http://h/p?token=[redacted]&page=2");
    CHECK(one_line({"sh", "-c", "curl -H 'Authorization: Basic zzz' http://h && PASSWORD=x y --token abc"}) ==
          "sh -c curl -H 'Authorization: [redacted]' http://h && PASSWORD=[redacted] y --token [redacted]");
    const std::vector<std::string> harmless = {"gpg",          "--keyserver", "hkps://h/", "a@b",
                                               "http://h/a@b", "n=1",         "-c",        "print(1)",
                                               "-k",           "monkeys=3",   "a:b:c"};
    CHECK(redact(harmless) == harmless);
}

TEST_CASE("redaction of a long hostile argument ends") {
    std::string text;
    for (int index = 0; index < 5000; ++index) text += "key=x&://@:";
    CHECK(redact_argument(text).find("key=x") == std::string::npos);
}

TEST_CASE("the name of an option is looked at once, however long it is") {
    const std::string text = std::string(4000, '-') + " x --token y --" + std::string(3000, '-') + "token z";
    const std::size_t before = tests::allocations();
    const std::string redacted = redact_argument(text);
    CHECK(tests::allocations() - before < 100);
    CHECK(redacted ==
          std::string(4000, '-') + " x --token [redacted] --" + std::string(3000, '-') + "token [redacted]");
}
