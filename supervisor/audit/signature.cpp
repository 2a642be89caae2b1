#include "supervisor/audit/signature.hpp"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <cstring>
#include <variant>
#include <vector>

#include "supervisor/machine.hpp"

namespace callgate::audit {

namespace {

constexpr std::size_t longest_key = 65536;
constexpr std::size_t signature_bytes = 64;

EVP_PKEY* raw(const std::shared_ptr<void>& key) { return static_cast<EVP_PKEY*>(key.get()); }

std::string message(const ChainHash& head) { return "callgate/audit/1\n" + std::string(head.view()); }

const unsigned char* bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());  // NOLINT
}

/// Nobody is asked for a pass phrase: an encrypted key is an error.
int no_phrase(char*, int, int, void*) { return -1; }

enum class Half : std::uint8_t { secret, open };

std::shared_ptr<void> read_key(const std::string& path, Half half, std::string& error) {
    auto text = read_regular_file(path, longest_key);
    if (const auto* why = std::get_if<1>(&text)) {
        error = path + ' ' + *why;
        return nullptr;
    }
    const std::string& pem = std::get<0>(text);
    const std::unique_ptr<BIO, int (*)(BIO*)> source(
        ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &::BIO_free);
    EVP_PKEY* key =
        half == Half::open ? ::PEM_read_bio_PUBKEY(source.get(), nullptr, &no_phrase, nullptr) : nullptr;
    if (key == nullptr) {
        static_cast<void>(BIO_reset(source.get()));
        key = ::PEM_read_bio_PrivateKey(source.get(), nullptr, &no_phrase, nullptr);
    }
    std::shared_ptr<void> held(key, [](void* one) { ::EVP_PKEY_free(static_cast<EVP_PKEY*>(one)); });
    if (key == nullptr || ::EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) {
        error =
            path + ": expected an Ed25519 key in PEM (openssl genpkey -algorithm ed25519 -out " + path + ")";
        return nullptr;
    }
    return held;
}

using Context = std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)>;
Context new_context() { return {::EVP_MD_CTX_new(), &::EVP_MD_CTX_free}; }

}  // namespace

std::optional<SigningKey> SigningKey::load(const std::string& path, std::string& error) {
    SigningKey key;
    key.key_ = read_key(path, Half::secret, error);
    if (!key.key_) return std::nullopt;
    return key;
}

std::string SigningKey::sign(const ChainHash& head) const {
    const Context context = new_context();
    const std::string text = message(head);
    std::array<unsigned char, signature_bytes> signature{};
    std::size_t size = signature.size();
    if (!context || ::EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, raw(key_)) != 1 ||
        ::EVP_DigestSign(context.get(), signature.data(), &size, bytes(text), text.size()) != 1)
        return {};
    std::array<unsigned char, signature_bytes * 2> encoded{};
    const int length = ::EVP_EncodeBlock(encoded.data(), signature.data(), static_cast<int>(size));
    return {encoded.begin(), encoded.begin() + length};
}

std::optional<VerifyingKey> VerifyingKey::load(const std::string& path, std::string& error) {
    VerifyingKey key;
    key.key_ = read_key(path, Half::open, error);
    if (!key.key_) return std::nullopt;
    return key;
}

bool VerifyingKey::good(const ChainHash& head, std::string_view signature) const {
    constexpr std::size_t encoded = 88;  // 64 bytes, padded
    if (signature.size() != encoded || !signature.ends_with("==")) return false;
    std::array<unsigned char, 66> decoded{};
    if (::EVP_DecodeBlock(decoded.data(), bytes(signature), static_cast<int>(encoded)) != 66) return false;
    const Context context = new_context();
    const std::string text = message(head);
    return context && ::EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, raw(key_)) == 1 &&
           ::EVP_DigestVerify(context.get(), decoded.data(), signature_bytes, bytes(text), text.size()) == 1;
}

}  // namespace callgate::audit
