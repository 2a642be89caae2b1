// An Ed25519 key from its PEM file, as OpenSSL writes it (RFC 8410). It is the seed of a private key, or a
// public key. Other kinds of keys and encrypted keys are refused: callgate asks for no pass phrase.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "base/expected.hpp"

namespace callgate::audit {

/// The bytes are cleared before their memory is given back.
class SecretBytes {
public:
    explicit SecretBytes(std::size_t size) : bytes_(size) {}
    SecretBytes(const SecretBytes&) = default;
    SecretBytes(SecretBytes&&) = default;
    SecretBytes& operator=(const SecretBytes&) = delete;
    SecretBytes& operator=(SecretBytes&&) = delete;
    ~SecretBytes();

    [[nodiscard]] unsigned char* data() { return bytes_.data(); }
    [[nodiscard]] const unsigned char* data() const { return bytes_.data(); }
    [[nodiscard]] std::size_t size() const { return bytes_.size(); }

private:
    std::vector<unsigned char> bytes_;
};

/// The seed of a private key, or the bytes of a public one. Either has 32 bytes.
using KeyFile = std::variant<SecretBytes, std::string>;

/// Fails if the file cannot be read or holds no such key.
[[nodiscard]] Expected<KeyFile> read_key_file(const std::string& path);

/// The error about a file that holds something else.
[[nodiscard]] Problem no_key(const std::string& path);

}  // namespace callgate::audit
