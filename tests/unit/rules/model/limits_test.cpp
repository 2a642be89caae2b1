// Sizes, times and how limits are merged; suggestions for misspelt words.
#include "rules/model/limits.hpp"

#include <doctest/doctest.h>

#include <array>

#include "rules/load/loader.hpp"

using namespace callgate;
using namespace callgate::rules;
using std::chrono::milliseconds;

TEST_CASE("sizes are powers of 1024 and refuse nonsense and overflow") {
    CHECK(parse_size("0") == 0);
    CHECK(parse_size("512M") == 512ULL << 20U);
    CHECK(parse_size("1T") == 1ULL << 40U);
    CHECK(parse_size("16777215T") == 16777215ULL << 40U);
    CHECK(parse_size("18446744073709551615") == 18446744073709551615ULL);
    for (const char* bad :
         {"", "M", "-1", "1.5M", "1MB", "1m", " 1", "1 ", "16777216T", "18446744073709551616", "0x10"})
        CHECK_MESSAGE(!parse_size(bad), bad);
}

TEST_CASE("times know four units, fractions, and no overflow") {
    CHECK(parse_duration("1500ms") == milliseconds(1500));
    CHECK(parse_duration("30s") == milliseconds(30'000));
    CHECK(parse_duration("2m") == milliseconds(120'000));
    CHECK(parse_duration("1h") == milliseconds(3'600'000));
    CHECK(parse_duration("60") == milliseconds(60'000));
    CHECK(parse_duration("0.5") == milliseconds(500));
    CHECK(parse_duration("1.5m") == milliseconds(90'000));
    CHECK(parse_duration("0.0009") == milliseconds(0));
    for (const char* bad :
         {"", "s", "1.", ".5", "-1", "1d", "1 s", "99999999999999999999", "9999999999999h", "1e3", "inf"})
        CHECK_MESSAGE(!parse_duration(bad), bad);
}

TEST_CASE("the tighter of two limits wins, one by one") {
    Limits left, right;
    left.open_files = 10;
    left.wall = milliseconds(5);
    right.open_files = 20;
    right.file_size = 7;
    const Limits both = left.tighter(right);
    CHECK(both.open_files == 10);
    CHECK(both.wall == milliseconds(5));
    CHECK(both.file_size == 7);
    CHECK_FALSE(both.memory);
    CHECK(right.tighter(left).open_files == 10);
}

TEST_CASE("the nearest word is one edit away for short words and a third of the length for long ones") {
    constexpr std::array<std::string_view, 4> words{"allow", "deny", "environment", "id"};
    CHECK(nearest("alow", words) == "allow");
    CHECK(nearest("dney", words) == "deny");
    CHECK(nearest("enviroment", words) == "environment");
    CHECK(nearest("envirnoment", words) == "environment");
    CHECK_FALSE(nearest("xy", words));
    CHECK_FALSE(nearest("a", words));
    CHECK_FALSE(nearest("zzzzzz", words));
    CHECK_FALSE(nearest(std::string(1'000'000, 'a'), words));
}
