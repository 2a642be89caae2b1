#include "base/md5.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace callgate;

TEST_CASE("md5 gives the digests of RFC 1321") {
    const auto hexadecimal = [](std::string_view bytes) {
        constexpr std::string_view digits = "0123456789abcdef";
        std::string text;
        for (const std::uint8_t byte : md5(bytes)) (text += digits[byte / 16]) += digits[byte % 16];
        return text;
    };
    CHECK(hexadecimal("") == "d41d8cd98f00b204e9800998ecf8427e");
    CHECK(hexadecimal("abc") == "900150983cd24fb0d6963f7d28e17f72");
    CHECK(hexadecimal("12345678901234567890123456789012345678901234567890123456789012345678901234567890") ==
          "57edf4a22be3c955ac49da2e2107b67a");
    CHECK(hexadecimal(std::string(56, 'a')) == "3b0c8ac703f828b04c6c197006d17218");
}
