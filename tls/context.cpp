#include "tls/context.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <string>
#include <string_view>

#include "tls/protocol.hpp"

namespace callgate::tls {

namespace {

using Certificate = std::unique_ptr<X509, Freeing>;
using Key = std::unique_ptr<EVP_PKEY, Freeing>;
using Source = std::unique_ptr<BIO, Freeing>;

/// The reason that OpenSSL gave last, such as "ee key too small".
std::string reason() {
    const char* const text = ::ERR_reason_error_string(::ERR_peek_last_error());
    return text == nullptr ? "unknown reason" : text;
}

Problem wrong(char which, const std::string& why) { return Problem{{which + why}}; }

std::string shown(const ASN1_TIME* time) {
    const Source text(::BIO_new(::BIO_s_mem()));
    std::string line(64, '\0');
    const int size = ::ASN1_TIME_print(text.get(), time) == 1
                         ? ::BIO_read(text.get(), line.data(), static_cast<int>(line.size()))
                         : 0;
    line.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return line;
}

/// The names of protocols that a client offers, each behind its length. Without HTTP/1.1 it is refused.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned int length, void*) {
    constexpr std::string_view http = "http/1.1";
    for (std::string_view rest(reinterpret_cast<const char*>(offered), length); !rest.empty();) {
        const auto own = static_cast<unsigned char>(rest.front());
        const std::string_view name = rest.substr(1, own);
        if (name == http) {
            *chosen = reinterpret_cast<const unsigned char*>(name.data());
            *size = own;
            return SSL_TLSEXT_ERR_OK;
        }
        rest.remove_prefix(1 + name.size());
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void set_protocol(SSL_CTX& context) {
    ::SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
    ::SSL_CTX_set_security_level(&context, 2);
    ::SSL_CTX_set_cipher_list(&context, "ECDHE+AESGCM:ECDHE+CHACHA20");  // of TLS 1.2
    ::SSL_CTX_set_options(&context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    ::SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
    ::SSL_CTX_set_num_tickets(&context, 0);
    ::SSL_CTX_set_alpn_select_cb(&context, choose_protocol, nullptr);
    ::SSL_CTX_set_mode(&context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                     SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // A client that sends records without data has no more of them read in one turn than one.
    ::SSL_CTX_clear_mode(&context, SSL_MODE_AUTO_RETRY);
}

/// Notes that a passphrase is asked for, and gives none.
int no_passphrase(char*, int, int, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
}

Expected<void> use_certificates(SSL_CTX& context, BIO& source) {
    const Certificate own(::PEM_read_bio_X509_AUX(&source, nullptr, nullptr, nullptr));
    if (!own)
        return wrong(of_certificate,
                     "this is no certificate in PEM form; write one that begins with "
                     "-----BEGIN CERTIFICATE-----");
    if (::X509_cmp_current_time(::X509_get0_notAfter(own.get())) <= 0)
        return wrong(of_certificate,
                     "it has expired (" + shown(::X509_get0_notAfter(own.get())) + "); renew it");
    if (::X509_cmp_current_time(::X509_get0_notBefore(own.get())) > 0)
        return wrong(of_certificate, "it is not valid before " + shown(::X509_get0_notBefore(own.get())) +
                                         "; look at this machine's clock");
    if (::SSL_CTX_use_certificate(&context, own.get()) != 1)
        return wrong(of_certificate, "OpenSSL refuses it (" + reason() + "); make another one");
    while (Certificate above{::PEM_read_bio_X509(&source, nullptr, nullptr, nullptr)})
        if (::SSL_CTX_add1_chain_cert(&context, above.get()) != 1)
            return wrong(of_certificate,
                         "OpenSSL refuses one behind the first (" + reason() + "); take it out");
    if (ERR_GET_REASON(::ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return wrong(of_certificate, "what stands behind the first certificate cannot be read (" + reason() +
                                         "); write the chain anew");
    ::ERR_clear_error();
    return {};
}

Expected<void> use_key(SSL_CTX& context, BIO& source) {
    bool asked = false;
    const Key key(::PEM_read_bio_PrivateKey(&source, nullptr, no_passphrase, &asked));
    if (asked)
        return wrong(of_key,
                     "it is encrypted, and nobody can be asked for its passphrase; decrypt it by "
                     "openssl pkey -in FILE -out NEW");
    if (!key)
        return wrong(of_key,
                     "this is no private key in PEM form; write one that begins with "
                     "-----BEGIN PRIVATE KEY-----");
    if (::SSL_CTX_use_PrivateKey(&context, key.get()) != 1 || ::SSL_CTX_check_private_key(&context) != 1)
        return wrong(of_key, "it is not the key of the certificate; give those that belong together");
    return {};
}

}  // namespace

Expected<Context> make_context(int certificate, int key) {
    // The filter would kill a later load of error texts, so they are loaded now.
    ::OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS, nullptr);
    Context context(::SSL_CTX_new(::TLS_server_method()));
    const Source certificates(::BIO_new_fd(certificate, BIO_NOCLOSE));
    const Source keys(::BIO_new_fd(key, BIO_NOCLOSE));
    unsigned char seeding = 0;
    if (!context || !certificates || !keys || ::RAND_bytes(&seeding, 1) != 1)
        return wrong(of_certificate, "OpenSSL cannot begin (" + reason() + ")");
    set_protocol(*context);
    if (auto used = use_certificates(*context, *certificates); !used) return used.error();
    if (auto used = use_key(*context, *keys); !used) return used.error();
    return context;
}

}  // namespace callgate::tls
