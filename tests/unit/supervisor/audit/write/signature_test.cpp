// Signatures against OpenSSL's, which made the keys.
#include "supervisor/audit/write/signature.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "base/escape.hpp"
#include "tests/unit/supervisor/audit/test_keys.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::audit;
using namespace callgate::tests;

namespace {

struct Files {
    TemporaryDirectory directory;
    std::string write(const std::string& text) {
        const std::string path = directory / ("key" + std::to_string(++count_) + ".pem");
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

private:
    int count_ = 0;
};

const ChainHash head = chain_hash(ChainHash::none(), "one record");

/// The key in RFC 5958's second version: with its public half behind the seed.
std::string second_version(const TestKey& key) {
    const std::string seed = decode_base64(key.secret_body)->substr(16);
    const std::string open = decode_base64(key.open_body)->substr(12);
    const std::string der =
        std::string("\x30\x51\x02\x01\x01\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20", 16) + seed +
        std::string("\x81\x21\x00", 3) + open;
    Buffer encoded(256);
    append_base64(encoded, der);
    return "-----BEGIN PRIVATE KEY-----\n" + std::string(encoded.view()) + "\n-----END PRIVATE KEY-----\n";
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("OpenSSL takes what was signed here, and the other way round") {
    Files files;
    const TestKey& key = first_key;
    for (const std::string& pem :
         {key.secret(), second_version(key), "text before it\r\n" + key.secret() + "text behind it"}) {
        const auto secret = SigningKey::load(files.write(pem));
        REQUIRE(secret.has_value());
        CHECK(secret->sign(head) == key.signature);
    }
    for (const std::string& pem : {key.open(), key.secret(), second_version(key)}) {
        const auto open = VerifyingKey::load(files.write(pem));
        REQUIRE(open.has_value());
        CHECK(open->good(head, key.signature));
        CHECK_FALSE(open->good(head, second_key.signature));
        CHECK_FALSE(open->good(ChainHash::none(), key.signature));
        CHECK_FALSE(open->good(head, ""));
    }
}

TEST_CASE("what is no Ed25519 key is refused, with what would be one") {
    Files files;
    const std::string secret = first_key.secret(), open = first_key.open();
    const auto why = [&](const std::string& pem) {
        const auto key = VerifyingKey::load(files.write(pem));
        CHECK_FALSE(key.has_value());
        return key.error().text;
    };
    for (const std::string& pem :
         {std::string(), std::string("-----BEGIN PRIVATE KEY-----"),
          std::string("-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----"),
          TestKey::pem("ENCRYPTED PRIVATE KEY", encrypted_body), agreement_key.secret(), agreement_key.open(),
          changed(secret, "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nA"),
          changed(secret, "MC4C", "MC8C"), changed(open, "MCow", "MCsw"), changed(open, "MCow", "MC*w"),
          changed(open, "-----END", "AAAA\n-----END")})
        CHECK_MESSAGE(why(pem).find("openssl genpkey -algorithm ed25519") != std::string::npos, pem);
    const auto no_secret = SigningKey::load(files.write(open));
    REQUIRE_FALSE(no_secret.has_value());
    CHECK(no_secret.error().text.find("expected an Ed25519 key") != std::string::npos);
    const auto none = SigningKey::load(files.directory / "none.pem");
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().text.find("none.pem") != std::string::npos);
}
