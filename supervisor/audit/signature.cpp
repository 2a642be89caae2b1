#include "supervisor/audit/signature.hpp"

#include <array>
#include <variant>

#include "supervisor/audit/escape.hpp"
#include "supervisor/audit/openssl.hpp"
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

/// Of a key that was loaded, so the library was.
const OpenSsl& library() {
    std::string unused;
    return *openssl(unused);
}

/// Nobody is asked for a pass phrase: an encrypted key is an error.
int no_phrase(char*, int, int, void*) { return -1; }

enum class Half : std::uint8_t { secret, open };

template <class Read>
EVP_PKEY* read_pem(const OpenSsl& ssl, const std::string& pem, Read read) {
    const std::unique_ptr<BIO, decltype(&::BIO_free)> source(
        ssl.bio_new_mem_buf(pem.data(), static_cast<int>(pem.size())), ssl.bio_free);
    return read(source.get(), nullptr, &no_phrase, nullptr);
}

std::shared_ptr<void> read_key(const std::string& path, Half half, std::string& error) {
    const OpenSsl* const ssl = openssl(error);
    if (ssl == nullptr) return nullptr;
    auto text = read_regular_file(path, longest_key);
    if (const auto* why = std::get_if<1>(&text)) {
        error = path + ' ' + *why;
        return nullptr;
    }
    const std::string& pem = std::get<0>(text);
    EVP_PKEY* key = half == Half::open ? read_pem(*ssl, pem, ssl->pem_read_bio_pubkey) : nullptr;
    if (key == nullptr) key = read_pem(*ssl, pem, ssl->pem_read_bio_private_key);
    std::shared_ptr<void> held(key, [ssl](void* one) { ssl->evp_pkey_free(static_cast<EVP_PKEY*>(one)); });
    if (key == nullptr || ssl->evp_pkey_get_id(key) != EVP_PKEY_ED25519) {
        error =
            path + ": expected an Ed25519 key in PEM (openssl genpkey -algorithm ed25519 -out " + path + ")";
        return nullptr;
    }
    return held;
}

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)>;
Context new_context() { return {library().evp_md_ctx_new(), library().evp_md_ctx_free}; }

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
    const OpenSsl& ssl = library();
    if (!context || ssl.evp_digest_sign_init(context.get(), nullptr, nullptr, nullptr, raw(key_)) != 1 ||
        ssl.evp_digest_sign(context.get(), signature.data(), &size, bytes(text), text.size()) != 1)
        return {};
    Buffer encoded(signature_bytes * 2);
    append_base64(encoded, {reinterpret_cast<const char*>(signature.data()), size});  // NOLINT
    return std::string(encoded.view());
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
    const auto decoded = decode_base64(signature);
    if (!decoded || decoded->size() != signature_bytes) return false;
    const Context context = new_context();
    const std::string text = message(head);
    const OpenSsl& ssl = library();
    return context && ssl.evp_digest_verify_init(context.get(), nullptr, nullptr, nullptr, raw(key_)) == 1 &&
           ssl.evp_digest_verify(context.get(), bytes(*decoded), signature_bytes, bytes(text), text.size()) ==
               1;
}

}  // namespace callgate::audit
