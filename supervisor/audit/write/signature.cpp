#include "supervisor/audit/write/signature.hpp"

#include <sodium.h>

#include <variant>

#include "base/escape.hpp"
#include "supervisor/audit/write/key_file.hpp"

namespace callgate::audit {

namespace {

std::string message(const ChainHash& head) { return std::string("callgate/audit/1\n").append(head.view()); }

const unsigned char* bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());  // NOLINT
}

struct KeyPair {
    std::string open = std::string(crypto_sign_ed25519_PUBLICKEYBYTES, '\0');
    SecretBytes secret{crypto_sign_ed25519_SECRETKEYBYTES};
};

KeyPair pair_of(const SecretBytes& seed) {
    KeyPair pair;
    ::crypto_sign_ed25519_seed_keypair(reinterpret_cast<unsigned char*>(pair.open.data()),  // NOLINT
                                       pair.secret.data(), seed.data());
    return pair;
}

}  // namespace

Expected<SigningKey> SigningKey::load(const std::string& path) {
    const Expected<KeyFile> file = read_key_file(path);
    if (!file) return file.error();
    const auto* const seed = std::get_if<SecretBytes>(&*file);
    if (seed == nullptr) return no_key(path);
    SigningKey key;
    key.key_ = std::make_shared<const SecretBytes>(pair_of(*seed).secret);
    return key;
}

std::string SigningKey::sign(const ChainHash& head) const {
    const std::string text = message(head);
    std::string signature(crypto_sign_ed25519_BYTES, '\0');
    if (::crypto_sign_ed25519_detached(reinterpret_cast<unsigned char*>(signature.data()), nullptr,  // NOLINT
                                       bytes(text), text.size(), key_->data()) != 0)
        return {};
    Buffer encoded(signature.size() * 2);
    append_base64(encoded, signature);
    return std::string(encoded.view());
}

Expected<VerifyingKey> VerifyingKey::load(const std::string& path) {
    const Expected<KeyFile> file = read_key_file(path);
    if (!file) return file.error();
    VerifyingKey key;
    const auto* const seed = std::get_if<SecretBytes>(&*file);
    key.key_ = seed != nullptr ? pair_of(*seed).open : std::get<std::string>(*file);
    return key;
}

bool VerifyingKey::good(const ChainHash& head, std::string_view signature) const {
    constexpr std::size_t encoded = 88;  // 64 bytes, padded
    if (signature.size() != encoded || !signature.ends_with("==")) return false;
    const auto decoded = decode_base64(signature);
    if (!decoded || decoded->size() != crypto_sign_ed25519_BYTES) return false;
    const std::string text = message(head);
    return ::crypto_sign_ed25519_verify_detached(bytes(*decoded), bytes(text), text.size(), bytes(key_)) == 0;
}

}  // namespace callgate::audit
