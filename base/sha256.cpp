#include "base/sha256.hpp"

namespace callgate {

// These functions of libsodium cannot fail: they always return 0.

Sha256::Sha256() { static_cast<void>(::crypto_hash_sha256_init(&state_)); }

void Sha256::add(std::string_view bytes) {
    static_cast<void>(::crypto_hash_sha256_update(
        &state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));  // NOLINT
}

Sha256::Digest Sha256::digest() {
    Digest digest{};
    static_cast<void>(::crypto_hash_sha256_final(&state_, digest.data()));
    return digest;
}

Sha256::Hex Sha256::hex(const Digest& digest) {
    constexpr std::string_view digits = "0123456789abcdef";
    Hex text{};
    for (std::size_t index = 0; index < digest.size(); ++index) {
        text[2 * index] = digits[digest[index] >> 4U];
        text[2 * index + 1] = digits[digest[index] & 0xfU];
    }
    return text;
}

std::string sha256_hex(std::string_view bytes) {
    Sha256 hash;
    hash.add(bytes);
    const Sha256::Hex digits = Sha256::hex(hash.digest());
    return {digits.data(), digits.size()};
}

}  // namespace callgate
