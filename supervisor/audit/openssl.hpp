// What signatures need of OpenSSL, from the machine's own libcrypto, loaded only where something is signed or
// verified: linked in, its 4 MB of code and tables would be relocated at every start of callgate.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <string>

namespace callgate::audit {

/// Functions of libcrypto.so.3 under their own names (their manual pages, section 3).
struct OpenSsl {
    decltype(&::BIO_new_mem_buf) bio_new_mem_buf = nullptr;
    decltype(&::BIO_free) bio_free = nullptr;
    decltype(&::PEM_read_bio_PUBKEY) pem_read_bio_pubkey = nullptr;
    decltype(&::PEM_read_bio_PrivateKey) pem_read_bio_private_key = nullptr;
    decltype(&::EVP_PKEY_get_id) evp_pkey_get_id = nullptr;
    decltype(&::EVP_PKEY_free) evp_pkey_free = nullptr;
    decltype(&::EVP_MD_CTX_new) evp_md_ctx_new = nullptr;
    decltype(&::EVP_MD_CTX_free) evp_md_ctx_free = nullptr;
    decltype(&::EVP_DigestSignInit) evp_digest_sign_init = nullptr;
    decltype(&::EVP_DigestSign) evp_digest_sign = nullptr;
    decltype(&::EVP_DigestVerifyInit) evp_digest_verify_init = nullptr;
    decltype(&::EVP_DigestVerify) evp_digest_verify = nullptr;
};

/// Loaded once, and never unloaded; null, and why in `error`, where it is not there. Any thread.
[[nodiscard]] const OpenSsl* openssl(std::string& error);

}  // namespace callgate::audit
