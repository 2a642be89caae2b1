#include "supervisor/approval/terminal/plain_text.hpp"

#include <doctest/doctest.h>

using callgate::approval::PlainText;

namespace {

std::string filtered(std::string_view text, bool utf8 = true) {
    PlainText whole(utf8), pieces(utf8);
    const std::string out = whole.filter(text);
    std::string apart;  // the same, one byte at a time
    for (const char one : text) apart += pieces.filter({&one, 1});
    CHECK(apart == out);
    return out;
}

}  // namespace

TEST_CASE("text, line control and colours pass a plain output") {
    for (const std::string_view text : {"a\r\n\tb\b\a", "\x1b[0;1;38:2::1:2:3mred\x1b[m",
                                        "\xc3\xa9 \xe2\x80\x93 \xf0\x9f\x98\x80 \xc4\x9b"})
        CHECK(filtered(text) == text);
}

TEST_CASE("no other sequence passes a plain output, whole or cut") {
    for (const std::string_view text : {"\x1b[2J",
                                        "\x1b[?25l",
                                        "\x1b[>4;2m",
                                        "\x1b[1 m",
                                        "\x1b]0;title\a",
                                        "\x1b]8;;http://a\x1b\\",
                                        "\x1bP+q544e\x1b\\",
                                        "\x1b_Gx\x1b\\",
                                        "\x1b^x\x1b\\",
                                        "\x1bXx\x1b\\",
                                        "\x1bktitle\x1b\\",
                                        "\x1b(0",
                                        "\x1b"
                                        "c",
                                        "\x1b#8",
                                        "\x1b%@",
                                        "\x9b"
                                        "2J",
                                        "\xc2\x9b"
                                        "2J",
                                        "\x9d"
                                        "0;t\a",
                                        "\xc2\x90q\xc2\x9c",
                                        "\x0e",
                                        "\x0f",
                                        "\x7f",
                                        "\x18",
                                        "\x1b]52;c;QQ==\x1b",
                                        "\x1b[",
                                        "\x1b"}) {
        CAPTURE(text);
        const std::string out = filtered(text);
        CHECK(out.find_first_of("\x1b\x0e\x0f\x7f\x18\x90\x9b\x9c\x9d") == std::string::npos);
        CHECK(filtered(std::string(text) + "\x18"
                                           "after")
                  .ends_with("after"));
    }
}

TEST_CASE("a plain output for a terminal without UTF-8 holds no control of eight bits") {
    const std::string out = filtered(
        "\xc4\x9b"
        "2J \xc3\xa9 \xe2\x80\x93",
        false);
    for (const char one : out)
        CHECK((static_cast<unsigned char>(one) < 0x80 || static_cast<unsigned char>(one) >= 0xa0));
    CHECK(out.find("\xc3\xa9") != std::string::npos);
    CHECK(filtered("\xc4\x9b"
                   "2J") ==
          "\xc4\x9b"
          "2J");
}
