// SHA-256 (FIPS 180-4), computed by libsodium.
#pragma once

#include <sodium/crypto_hash_sha256.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace callgate {

class Sha256 {
public:
    using Digest = std::array<unsigned char, 32>;
    using Hex = std::array<char, 64>;

    Sha256();
    void add(std::string_view bytes);
    /// The digest of everything that was added. Add nothing after it.
    [[nodiscard]] Digest digest();

    /// The digest in lower-case digits.
    [[nodiscard]] static Hex hex(const Digest& digest);

private:
    crypto_hash_sha256_state state_;
};

/// The SHA-256 of `bytes` in 64 lower-case hex digits.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace callgate
