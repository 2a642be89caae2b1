// Keys for tests alone, and what OpenSSL 3.0 signed with them: `openssl genpkey`, `openssl pkey -pubout` and
// `openssl pkeyutl -sign -rawin` made them. An Ed25519 signature has one form, so callgate's must be the same
// bytes.
#pragma once

#include <string>
#include <string_view>

namespace callgate::tests {

/// A key pair in PEM, without the lines that begin and end it.
struct TestKey {
    std::string_view secret_body, open_body;
    /// The signature of the chain's head after a first record with the body "one record".
    std::string_view signature;

    [[nodiscard]] std::string secret() const { return pem("PRIVATE KEY", secret_body); }
    [[nodiscard]] std::string open() const { return pem("PUBLIC KEY", open_body); }

    static std::string pem(const std::string& label, std::string_view body) {
        return "-----BEGIN " + label + "-----\n" + std::string(body) + "\n-----END " + label + "-----\n";
    }
};

inline constexpr TestKey first_key{
    "MC4CAQAwBQYDK2VwBCIEIIIaUQ3e6egt4DO/cel0w/ZcVyC4P4OnL0v3jvns6rv2",
    "MCowBQYDK2VwAyEAj9laZnjmTbBB2SR35yAd5STBSAFB4wcPCCh7KmUvW7w=",
    "IMX29NMwhaF1euKafFPP/Q8srelMlVdW68HSZJ2AcOJDQa479LxTt20pU8yylNIBDW/wpI0vmlnlNNQx1DLZAQ=="};
inline constexpr TestKey second_key{
    "MC4CAQAwBQYDK2VwBCIEIOnTryEVdFe7ePVJqNkFv+L9QRxxD+GyzKzVk0LbS8Ls",
    "MCowBQYDK2VwAyEABhk6OnwN/LwomeHRHqIXI+kv3MNLZsvKKQ6K1nNe/xs=",
    "SCDWZcUIHm9P3agjEj0HRm9U6VLbtWxCO9ntS3+NNyCXNsEk87wscA8E/XcMwA07i9mDZAxMaYiETRp5GPY4CA=="};
/// X25519 agrees on keys and signs nothing.
inline constexpr TestKey agreement_key{"MC4CAQAwBQYDK2VuBCIEIBCZEP+mIWCuq3Td27iT0L/N2k1uObzaYRGV/k6yw4pk",
                                       "MCowBQYDK2VuAyEADQdywnGx9WFuHWfHYq/CbmyDKhjr3jPj/6KvVeHywio=", ""};
/// `first_key`, encrypted with a phrase.
inline constexpr std::string_view encrypted_body =
    "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiG6TY8jZ4xEAICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEAtT9zBItxg13V/7chAev8YEQFDp\n"
    "8NhLH6CZCHlP5P0OB4W5xQofdBPs00Q19TMdr1feRB598eGWZ6UcwqyqMgQWqqGA\n"
    "ELCO/9ZfXarZ7FXNpVA=";

}  // namespace callgate::tests
