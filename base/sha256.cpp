#include "base/sha256.hpp"

// The plain functions: fetching a digest by name costs a short run more than everything that is hashed.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>

namespace callgate {

std::string sha256_hex(std::string_view bytes) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
    SHA256_CTX state;
    SHA256_Init(&state);
    SHA256_Update(&state, bytes.data(), bytes.size());
    SHA256_Final(hash.data(), &state);
    std::string result;
    for (const unsigned char byte : hash) {
        constexpr std::string_view digits = "0123456789abcdef";
        result += digits[byte >> 4U];
        result += digits[byte & 0xfU];
    }
    return result;
}

}  // namespace callgate
