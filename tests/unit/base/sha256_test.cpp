#include "base/sha256.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace callgate;

TEST_CASE("SHA-256 gives the digests of FIPS 180-4") {
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("SHA-256 of pieces is that of the whole") {
    const std::string bytes(1000, '\xa5');
    for (const auto cut : std::initializer_list<std::size_t>{0, 1, 63, 64, 65, 500, 1000}) {
        Sha256 hash;
        hash.add(std::string_view(bytes).substr(0, cut));
        hash.add(std::string_view(bytes).substr(cut));
        const Sha256::Hex digits = Sha256::hex(hash.digest());
        CHECK(std::string(digits.data(), digits.size()) == sha256_hex(bytes));
    }
}
