#include "base/reader_letters.hpp"

#include <doctest/doctest.h>

using namespace callgate;

TEST_CASE("letters of the reader's language are shown, and no others") {
    const ReaderLetters russian("ru_RU.UTF-8"), english("en_GB.utf8"), japanese("ja_JP.UTF-8"), none("C"),
        plain("ru_RU.KOI8-R");
    CHECK(russian.shown("/home/u/отчёт.txt") == "/home/u/отчёт.txt");
    CHECK(english.shown("/home/u/отчёт.txt").starts_with("/home/u/\\xd0\\xbe\\xd1\\x82"));
    for (const ReaderLetters* const one : {&russian, &english, &japanese})
        CHECK(one->shown("/u/café/ñandú") == "/u/café/ñandú");
    CHECK(japanese.shown("/u/第3回のメモ.md") == "/u/第3回のメモ.md");
    CHECK(ReaderLetters("ko_KR.UTF-8").shown("보고서") == "보고서");
    CHECK(ReaderLetters("zh_CN.UTF-8").shown("报告.pdf") == "报告.pdf");
    CHECK(ReaderLetters("el_GR.UTF-8").shown("αναφορά") == "αναφορά");
    for (const ReaderLetters* const one : {&none, &plain}) {
        CHECK_FALSE(one->utf8());
        CHECK(one->shown("café") == "caf\\xc3\\xa9");
    }
}

TEST_CASE("a name that may be taken for another one is shown as bytes") {
    const ReaderLetters russian("ru_RU.UTF-8"), japanese("ja_JP.UTF-8"), arabic("ar_EG.UTF-8");
    for (const std::string_view name :
         {"раypal", "отчёт-report", "сору", "сору.sh", "аррӏе"}) {  // mixed, or shapes of Latin only
        INFO(name);
        CHECK(russian.shown(name).find("\\x") != std::string::npos);
    }
    for (const std::string_view name : {"f\u0131le", "\u017fsh", "e\u0301", "a\u202e", "a\u200b", "\u00a0",
                                        "│", "…", "²", "ﬁ", "ａ", "\xff", "é\xff"}) {
        INFO(name);
        CHECK(russian.shown(name).find("\\x") != std::string::npos);
    }
    CHECK(japanese.shown("aノb").find("\\x") != std::string::npos);
    CHECK(arabic.shown("تقرير").starts_with("\\xd8"));
    CHECK(russian.shown("/раypal/отчёт").ends_with("/отчёт"));
    CHECK(russian.shown("нужен config", "/ ") == "нужен config");
    CHECK(russian.shown("нужен config") != "нужен config");
    CHECK(russian.shown("é\\x") == "é\\\\x");
    CHECK(russian.shown("\n\x1b\x7f") == "\\x0a\\x1b\\x7f");
}

TEST_CASE("a letter beyond ASCII has room for two columns, and is never divided") {
    CHECK(columns_of("aé") == 3);
    CHECK(fitting("aéb", 2) == 1);
    CHECK(fitting("aéb", 3) == 3);
    CHECK(fitting("第", 1) == 0);
    CHECK(fitting("abc", 9) == 3);
}

TEST_CASE("a name with spaces is in quotes, out of which none of its characters leads") {
    CHECK(delimited_name("/a/b") == "/a/b");
    CHECK(delimited_name("/a/\"b\"") == "/a/\"b\"");
    CHECK(delimited_name("/a/b  allow with: --write /") == "\"/a/b  allow with: --write /\"");
    CHECK(delimited_name("a\" x1  allow") == "\"a\\\" x1  allow\"");
    CHECK(delimited_name("a\\\" b") == "\"a\\\\\\\" b\"");
}
