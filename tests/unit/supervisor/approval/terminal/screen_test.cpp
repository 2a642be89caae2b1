#include "supervisor/approval/terminal/screen.hpp"

#include <doctest/doctest.h>

#include <string>

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
