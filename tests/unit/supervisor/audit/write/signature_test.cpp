// Signatures against OpenSSL, which made the keys: each side takes what the other signed.
#include "supervisor/audit/write/signature.hpp"

#include <doctest/doctest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <fstream>
#include <memory>
#include <string>

#include "base/escape.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::audit;
using callgate::tests::TemporaryDirectory;

namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;

Key make_key(const char* kind) {
    Key key(::EVP_PKEY_Q_keygen(nullptr, nullptr, kind), &::EVP_PKEY_free);
    REQUIRE(key);
    return key;
}

template <typename Write>
std::string write_pem(Write write) {
    const std::unique_ptr<BIO, decltype(&::BIO_free)> text(::BIO_new(::BIO_s_mem()), &::BIO_free);
    REQUIRE(write(text.get()) == 1);
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(text.get(), &bytes);
    return {bytes, static_cast<std::size_t>(size)};
}

std::string secret_pem(EVP_PKEY* key, const char* phrase = nullptr) {
    return write_pem([&](BIO* text) {
        return ::PEM_write_bio_PrivateKey(text, key, phrase == nullptr ? nullptr : ::EVP_aes_256_cbc(),
                                          nullptr, 0, nullptr, const_cast<char*>(phrase));
    });
}

std::string open_pem(EVP_PKEY* key) {
    return write_pem([&](BIO* text) { return ::PEM_write_bio_PUBKEY(text, key); });
}

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

std::string signed_text() { return "callgate/audit/1\n" + std::string(head.view()); }

const unsigned char* bytes(const std::string& text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)>;

bool openssl_finds_good(EVP_PKEY* key, const std::string& signature) {
    const Context context(::EVP_MD_CTX_new(), &::EVP_MD_CTX_free);
    const std::string text = signed_text();
    REQUIRE(::EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key) == 1);
    return ::EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(text), text.size()) ==
           1;
}

std::string signed_by_openssl(EVP_PKEY* key) {
    const Context context(::EVP_MD_CTX_new(), &::EVP_MD_CTX_free);
    const std::string text = signed_text();
    std::array<unsigned char, 64> signature{};
    std::size_t size = signature.size();
    REQUIRE(::EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key) == 1);
    REQUIRE(::EVP_DigestSign(context.get(), signature.data(), &size, bytes(text), text.size()) == 1);
    Buffer encoded(128);
    append_base64(encoded, {reinterpret_cast<const char*>(signature.data()), size});
    return std::string(encoded.view());
}

/// The key in RFC 5958's second version: with its public half behind the seed.
std::string second_version(EVP_PKEY* key) {
    std::string seed(32, '\0'), open(32, '\0');
    std::size_t size = 32;
    REQUIRE(::EVP_PKEY_get_raw_private_key(key, reinterpret_cast<unsigned char*>(seed.data()), &size) == 1);
    REQUIRE(::EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(open.data()), &size) == 1);
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
    std::string error;
    const Key key = make_key("ED25519"), other = make_key("ED25519");
    for (const std::string& pem : {secret_pem(key.get()), second_version(key.get()),
                                   "text before it\r\n" + secret_pem(key.get()) + "text behind it"}) {
        const auto secret = SigningKey::load(files.write(pem), error);
        REQUIRE_MESSAGE(secret.has_value(), error);
        const std::string signature = secret->sign(head);
        CHECK(openssl_finds_good(key.get(), *decode_base64(signature)));
        CHECK_FALSE(openssl_finds_good(other.get(), *decode_base64(signature)));
    }
    for (const std::string& pem : {open_pem(key.get()), secret_pem(key.get()), second_version(key.get())}) {
        const auto open = VerifyingKey::load(files.write(pem), error);
        REQUIRE_MESSAGE(open.has_value(), error);
        CHECK(open->good(head, signed_by_openssl(key.get())));
        CHECK_FALSE(open->good(head, signed_by_openssl(other.get())));
        CHECK_FALSE(open->good(ChainHash::none(), signed_by_openssl(key.get())));
        CHECK_FALSE(open->good(head, ""));
    }
}

TEST_CASE("what is no Ed25519 key is refused, with what would be one") {
    Files files;
    const Key key = make_key("ED25519"), agreement = make_key("X25519");
    const std::string secret = secret_pem(key.get()), open = open_pem(key.get());
    const auto why = [&](const std::string& pem) {
        std::string error;
        CHECK_FALSE(VerifyingKey::load(files.write(pem), error).has_value());
        return error;
    };
    for (const std::string& pem :
         {std::string(), std::string("-----BEGIN PRIVATE KEY-----"),
          std::string("-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----"), secret_pem(key.get(), "phrase"),
          secret_pem(agreement.get()), open_pem(agreement.get()),
          changed(secret, "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nA"),
          changed(secret, "MC4C", "MC8C"), changed(open, "MCow", "MCsw"), changed(open, "MCow", "MC*w"),
          changed(open, "-----END", "AAAA\n-----END")})
        CHECK_MESSAGE(why(pem).find("openssl genpkey -algorithm ed25519") != std::string::npos, pem);
    std::string error;
    CHECK_FALSE(SigningKey::load(files.write(open), error).has_value());
    CHECK(error.find("expected an Ed25519 key") != std::string::npos);
    CHECK_FALSE(SigningKey::load(files.directory / "none.pem", error).has_value());
    CHECK(error.find("none.pem") != std::string::npos);
}
