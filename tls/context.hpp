// The certificate, its key, and what is agreed upon with every client.
//
// The owner of the service alone controls the two files. They are read once, before the process is
// confined. OpenSSL reads no configuration file and no variable here.
//
// A client controls which of the offered versions, suites and groups are used. All of them encrypt and
// authenticate with a key that is made for this connection alone (TLS 1.2 and 1.3). It gets neither
// renegotiation, compression, early data nor a session to resume, so nothing of it is kept after its end.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "base/expected.hpp"

namespace callgate::tls {

struct Freeing {
    void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
    void operator()(SSL* connection) const { ::SSL_free(connection); }
    void operator()(X509* certificate) const { ::X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
    void operator()(BIO* source) const { ::BIO_free(source); }
};
using Context = std::unique_ptr<SSL_CTX, Freeing>;
using Session = std::unique_ptr<SSL, Freeing>;

/// Reads both files to their ends. The problem's text begins with `of_certificate` or `of_key`
/// (protocol.hpp).
[[nodiscard]] Expected<Context> make_context(int certificate, int key);

}  // namespace callgate::tls
