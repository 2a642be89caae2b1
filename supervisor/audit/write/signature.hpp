// Ed25519 signatures of a chain's heads, by libsodium.
//
// Keys are the user's own PEM files; an attacker may have chosen the data that is verified. A signature is
// over "callgate/audit/1\n" and the 64 hex digits of the head.
#pragma once

#include <memory>
#include <string>

#include "supervisor/audit/write/chain.hpp"
#include "supervisor/audit/write/key_file.hpp"

namespace callgate::audit {

class SigningKey {
public:
    /// Loads a private key ("openssl genpkey -algorithm ed25519").
    static Expected<SigningKey> load(const std::string& path);
    /// The signature in base64, or "" if signing fails.
    [[nodiscard]] std::string sign(const ChainHash& head) const;

private:
    std::shared_ptr<const SecretBytes> key_;
};

class VerifyingKey {
public:
    /// Loads a public key ("openssl pkey -pubout"), or a private one.
    static Expected<VerifyingKey> load(const std::string& path);
    [[nodiscard]] bool good(const ChainHash& head, std::string_view signature) const;

private:
    std::string key_;
};

}  // namespace callgate::audit
