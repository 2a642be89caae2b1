#include "supervisor/approval/terminal/screen.hpp"

#include <doctest/doctest.h>

#include <string>

#include "supervisor/approval/terminal/plain_text.hpp"

using callgate::approval::PlainText;
using callgate::approval::Screen;

namespace {

bool covered_after(const std::string& bytes) {
    Screen whole, by_byte;
    whole.feed(bytes);
    for (const char one : bytes) by_byte.feed({&one, 1});
    CHECK(whole.covered() == by_byte.covered());
    return whole.covered();
}

}  // namespace

TEST_CASE("a terminal may be covered once its Tektronix window was asked for, however that is written") {
    for (const char* const bytes :
         {"\x1b[?38h", "text\x1b[?1;38;25h", "\x1b[?;38h", "\x1b[?0038h", "\x1b\n[?3\r8h", "\xc2\x9b?38h",
          "\x1b[?38h\x1b[?38l\x1b\x03\x1b"
          "c",
          "\x1b[12\x1b[?38h"}) {
        INFO(bytes);
        CHECK(covered_after(bytes));
    }
    CHECK(covered_after("\x1b[?" + std::string(100, '0') + "38h"));
}

TEST_CASE("other modes and cancelled sequences cover nothing") {
    for (const char* const bytes : {"\x1b[?38l", "\x1b[38h", "\x1b[38;5;1m",
                                    "\x1b[?3\x18"
                                    "8h",
                                    "\x1b[?138h", "\x1b[?381h", "?38h"})
        CHECK(!covered_after(bytes));
    Screen screen;
    screen.feed("\x1b[?;1049;h");
    CHECK(screen.alternate());
}

TEST_CASE("what a program has not ended yet begins anew after a prompt") {
    Screen screen;
    for (const char* const half : {"text\x1b", "\x1b[", "\x1b[38;5", "\x1b[?20"}) {
        INFO(half);
        screen.feed(half);
        const std::string begun = std::string(half).substr(std::string(half).find('\x1b'));
        CHECK(screen.restore() == begun);
        screen.feed(begun.size() == 1 ? "[1m" : "1m");
        CHECK(screen.restore().empty());
    }
    const std::string length(100, '1');
    screen.feed("\x1b[" + length);
    CHECK(screen.restore().empty());
    screen.feed("m");
    CHECK(screen.restore().empty());
}

TEST_CASE("a character of UTF-8 begins anew too, where the locale has such") {
    const auto after = [](const std::string& bytes) {
        Screen screen;
        screen.feed(bytes);
        return screen.restore();
    };
    const auto usual = [&](const std::string& begun) { return PlainText::locale_is_utf8() ? begun : ""; };
    CHECK(after("x\xe2\x82") == usual("\xe2\x82"));
    CHECK(after("x\xf0\x9f\x98") == usual("\xf0\x9f\x98"));
    CHECK(after("x\xc3") == usual("\xc3"));
    for (const char* const whole : {"\xe2\x82\xac", "\xc3\xa9", "\x82", "\xc3z", "\xff", "\xf0\x9f\x98\x80"})
        CHECK(after(whole).empty());
}
