#include "supervisor/audit/openssl.hpp"

#include <dlfcn.h>

#include <optional>

namespace callgate::audit {

namespace {

struct Loaded {
    std::optional<OpenSsl> functions;
    std::string error;
};

Loaded load() {
    Loaded result;
    void* const library = ::dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    OpenSsl found;
    bool whole = library != nullptr;
    const auto take = [&](auto& function, const char* name) {
        if (whole)
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
        whole = whole && function != nullptr;
    };
    take(found.bio_new_mem_buf, "BIO_new_mem_buf");
    take(found.bio_free, "BIO_free");
    take(found.pem_read_bio_pubkey, "PEM_read_bio_PUBKEY");
    take(found.pem_read_bio_private_key, "PEM_read_bio_PrivateKey");
    take(found.evp_pkey_get_id, "EVP_PKEY_get_id");
    take(found.evp_pkey_free, "EVP_PKEY_free");
    take(found.evp_md_ctx_new, "EVP_MD_CTX_new");
    take(found.evp_md_ctx_free, "EVP_MD_CTX_free");
    take(found.evp_digest_sign_init, "EVP_DigestSignInit");
    take(found.evp_digest_sign, "EVP_DigestSign");
    take(found.evp_digest_verify_init, "EVP_DigestVerifyInit");
    take(found.evp_digest_verify, "EVP_DigestVerify");
    if (whole) {
        result.functions = found;
    } else {
        const char* const why = ::dlerror();
        result.error = "signatures need OpenSSL 3 (Debian: libssl3): " +
                       std::string(why != nullptr ? why : "libcrypto.so.3 lacks a function");
    }
    return result;
}

}  // namespace

const OpenSsl* openssl(std::string& error) {
    static const Loaded loaded = load();
    if (!loaded.functions) error = loaded.error;
    return loaded.functions ? &*loaded.functions : nullptr;
}

}  // namespace callgate::audit
