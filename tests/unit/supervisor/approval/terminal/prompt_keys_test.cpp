#include "supervisor/approval/terminal/prompt_keys.hpp"

#include <doctest/doctest.h>

#include "supervisor/approval/terminal/screen.hpp"

using namespace callgate;
using namespace callgate::approval;

namespace {

constexpr std::int64_t drawn = 1'000'000'000, later = drawn + PromptKeys::guard_ns;

struct Keys {
    Keys() { keys.begin(drawn); }
    PromptKeys keys;
    std::string echo;
    std::vector<std::string> at(std::int64_t now, std::string_view bytes) {
        return keys.feed(bytes, now, echo);
    }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("bytes in the guard time are no keys") {
    Keys keys;
    CHECK(keys.at(later - 1, "a\r").empty());
    CHECK_FALSE(keys.keys.touched());
    CHECK(keys.at(later, "\r") == Lines{""});
    CHECK(keys.keys.touched());
}

TEST_CASE("a line can be corrected, and Ctrl-C or the end of input denies") {
    Keys keys;
    CHECK(keys.at(later,
                  "b\x7f"
                  "a\r") == Lines{"a"});
    CHECK(keys.echo == "b\b \ba\r\n");
    keys.echo.clear();
    CHECK(keys.at(later, "xy\x15s\r") == Lines{"s"});
    CHECK(keys.echo == "xy\b \b\b \bs\r\n");
    CHECK(keys.at(later, "a\x03") == Lines{""});
    CHECK(keys.at(later, "a\x04") == Lines{""});
    CHECK(keys.at(later, "\xd0\xb0\r") == Lines{"??"});
}

TEST_CASE("replies of a terminal and pastes are no keys, in whatever pieces they come") {
    const std::string noise[] = {"\x1b[?62;1;2c",
                                 "\x1b[<0;10;10M",
                                 "\x1b]11;rgb:0/0/0\a",
                                 "\x1bPa\x1b\\",
                                 "\x1bOA",
                                 "\x1b"
                                 "a",
                                 "\x1b[200~a\ra\r\x1b[201~",
                                 "\x1b[200~\x1b[201\x1b[201~",
                                 "\x1b[I"};
    for (const std::string& bytes : noise) {
        Keys whole, pieces;
        CHECK(whole.at(later, bytes + "d\r") == Lines{"d"});
        for (const char one : bytes) CHECK(pieces.at(later, std::string_view(&one, 1)).empty());
        CHECK(pieces.at(later, "d\r") == Lines{"d"});
    }
}

TEST_CASE("a lone Esc is a key after a moment, but not in the guard time") {
    Keys keys;
    CHECK(keys.at(later, "\x1b").empty());
    CHECK_FALSE(keys.keys.escaped(later + PromptKeys::escape_ns - 1));
    CHECK(keys.keys.escaped(later + PromptKeys::escape_ns));
    CHECK_FALSE(keys.keys.escaped(later + 2 * PromptKeys::escape_ns));
    Keys early;
    CHECK(early.at(drawn, "\x1b").empty());
    CHECK_FALSE(early.keys.escaped(later));
}

TEST_CASE("a paste that lasts over the next prompt is none of its keys") {
    Keys keys;
    CHECK(keys.at(later, "\x1b[200~x").empty());
    keys.keys.begin(later);
    CHECK(keys.at(later + PromptKeys::guard_ns, "a\r\x1b[201~").empty());
    CHECK(keys.at(later + PromptKeys::guard_ns, "d\r") == Lines{"d"});
}

TEST_CASE("Ctrl-Z suspends at any time, and answers nothing") {
    Keys keys;
    CHECK(keys.at(drawn, "\x1a").empty());
    CHECK(keys.keys.take_suspend());
    CHECK_FALSE(keys.keys.take_suspend());
    CHECK(keys.at(later, "a\x1a").empty());
    CHECK(keys.keys.take_suspend());
    CHECK(keys.at(later, "\x1b[200~\x1a\x1b[201~").empty());
    CHECK_FALSE(keys.keys.take_suspend());
}

TEST_CASE("modes that a program chose are put back, and the screens are told apart") {
    Screen screen;
    CHECK(screen.restore().empty());
    CHECK_FALSE(screen.alternate());
    screen.feed("text\x1b[?10");
    screen.feed("49h\x1b[?25l\x1b[?1;1006h\x1b=\x1b[31m\x1b[?9999h");
    CHECK(screen.alternate());
    CHECK(screen.restore() == "\x1b[?1h\x1b[?25l\x1b[?1006h\x1b=");
    screen.feed("\x1b[?1049l\x1b[?25h");
    CHECK_FALSE(screen.alternate());
    CHECK(screen.restore() == "\x1b[?1h\x1b[?1006h\x1b=");
    screen.feed(
        "\x1b"
        "c");
    CHECK(screen.restore().empty());
    screen.feed("\x1b[?" + std::string(1000, '1') + "h\x1b[?25l");
    CHECK(screen.restore() == "\x1b[?25l");
}

TEST_CASE("a line for a question that is over is dropped, and what follows it passes") {
    constexpr std::int64_t over = 1'000'000'000, much_later = over + 100 * LateLine::window_ns;
    LateLine line;
    CHECK(line.pass("x\r", over) == "x\r");
    line.begin(true, over);
    CHECK(line.pass("b", much_later).empty());
    CHECK(line.pass("\rnext\r", much_later) == "next\r");
    line.begin(false, over);
    CHECK_FALSE(line.take_dropped());
    CHECK(line.pass("a", over + 1).empty());
    CHECK(line.take_dropped());
    CHECK(line.pass("b", over + LateLine::window_ns).empty());
    CHECK(line.pass("\x03x", over + 2 * LateLine::window_ns - 1) == "x");
    line.begin(false, over);
    CHECK(line.pass("a", over + 1).empty());
    CHECK(line.pass("ls\r", much_later) == "ls\r");  // nobody types a line for so long
    CHECK(line.take_dropped());
    line.begin(false, over);
    CHECK(line.pass("ls\r", over + LateLine::window_ns) == "ls\r");
    line.begin(false, over);
    CHECK(line.pass("\x1b[24;80R\x1b[200~a\rb\x1b[201~\x1a", over + 1) == "\x1b[24;80R\x1a");
    CHECK_FALSE(line.take_dropped());
    CHECK(line.pass("ls\r", over + LateLine::window_ns) == "ls\r");
}
