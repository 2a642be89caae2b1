#include "supervisor/audit/write/key_file.hpp"

#include <sodium.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "supervisor/host/host.hpp"

namespace callgate::audit {

namespace {

using namespace std::string_view_literals;

constexpr std::size_t max_file = 65536;
constexpr std::size_t key_size = 32;

// RFC 8410 allows one encoding of a public key. It also fixes the bytes before the seed of a private key,
// except for their length and version. In RFC 5958, a key of version 2 has its public half, or attributes,
// behind the seed.
constexpr auto public_head = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"sv;
constexpr auto private_head = "\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"sv;

std::string_view view(const SecretBytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // NOLINT
}

/// The text between the lines that begin and end the first `label` of a PEM text (RFC 7468).
std::string_view body(std::string_view pem, std::string_view label) {
    const std::string begin = "-----BEGIN " + std::string(label) + "-----";
    const std::string end = "-----END " + std::string(label) + "-----";
    const std::size_t first = pem.find(begin);
    if (first == std::string_view::npos) return {};
    pem.remove_prefix(first + begin.size());
    const std::size_t last = pem.find(end);
    return last == std::string_view::npos ? std::string_view() : pem.substr(0, last);
}

std::optional<SecretBytes> decode(std::string_view base64) {
    SecretBytes decoded(base64.size());
    std::size_t size = 0;
    if (base64.empty() || ::sodium_base642bin(decoded.data(), decoded.size(), base64.data(), base64.size(),
                                              " \t\r\n", &size, nullptr, sodium_base64_VARIANT_ORIGINAL) != 0)
        return std::nullopt;
    SecretBytes exact(size);
    std::copy_n(decoded.data(), size, exact.data());
    return exact;
}

/// Reads a SEQUENCE of a version, the algorithm, the seed and, in version 2, more.
std::optional<SecretBytes> seed_in(const SecretBytes& der) {
    std::string_view rest = view(der);
    const auto byte = [&rest](std::size_t at) { return static_cast<unsigned char>(rest[at]); };
    constexpr std::size_t before = 5;  // SEQUENCE and its length, INTEGER, its length, the version
    constexpr std::size_t least = before + private_head.size() + key_size;
    if (rest.size() < least || byte(0) != 0x30 || byte(1) != rest.size() - 2 || byte(2) != 2 || byte(3) != 1)
        return std::nullopt;
    const unsigned version = byte(4);
    if (version > 1 || (version == 0 && rest.size() != least)) return std::nullopt;
    rest.remove_prefix(before);
    if (!rest.starts_with(private_head)) return std::nullopt;
    SecretBytes seed(key_size);
    std::copy_n(der.data() + before + private_head.size(), key_size, seed.data());
    return seed;
}

std::optional<KeyFile> key_in(std::string_view pem) {
    if (const auto der = decode(body(pem, "PRIVATE KEY"))) {
        if (auto seed = seed_in(*der)) return *std::move(seed);
        return std::nullopt;
    }
    const auto der = decode(body(pem, "PUBLIC KEY"));
    if (!der || der->size() != public_head.size() + key_size || !view(*der).starts_with(public_head))
        return std::nullopt;
    return std::string(view(*der).substr(public_head.size()));
}

}  // namespace

SecretBytes::~SecretBytes() { ::sodium_memzero(bytes_.data(), bytes_.size()); }

Problem no_key(const std::string& path) {
    return {path + ": expected an Ed25519 key in PEM (openssl genpkey -algorithm ed25519 -out " + path + ")"};
}

Expected<KeyFile> read_key_file(const std::string& path) {
    if (::sodium_init() < 0) return Problem{"libsodium cannot be used on this host"};
    auto text = read_regular_file(path, max_file);
    if (!text) return Problem{path + ' ' + text.error().text};
    auto key = key_in(*text);
    ::sodium_memzero(text->data(), text->size());
    if (!key) return no_key(path);
    return std::move(*key);
}

}  // namespace callgate::audit
