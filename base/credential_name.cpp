#include "base/credential_name.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/words.hpp"

namespace callgate {

namespace {

/// The runs of letters and digits, in small letters.
std::vector<std::string> words_of(std::string_view name) {
    std::vector<std::string> words(1);
    for (const char one : lower_case(name)) {
        if (std::isalnum(static_cast<unsigned char>(one)) != 0)
            words.back() += one;
        else if (!words.back().empty())
            words.emplace_back();
    }
    if (words.back().empty()) words.pop_back();
    return words;
}

bool says_credential(std::string_view word) {
    if (word.ends_with('s')) word.remove_suffix(1);
    for (const std::string_view end : {"token", "credential", "secret", "password", "passphrase", "apikey"})
        if (word.ends_with(end)) return true;
    return has_word("passwd cred auth oauth cookie netrc keyring htpasswd", word);
}

}  // namespace

bool may_hold_credential(std::string_view path) {
    const std::vector<std::string> words = words_of(path.substr(path.rfind('/') + 1));
    if (words.empty()) return false;
    if (words.size() > 1) {
        if (words.back() == "pem") return has_word("key privkey private", words[words.size() - 2]);
        if (has_word("key p12 pfx jks keystore kdbx ppk", words.back())) return true;
        if (has_word(
                "c cc cpp cs css d go h hpp html java js jsx kt map md mjs cjs mo o php png po py pyc pyi rb "
                "rs rst scala so svg swift ts tsx",
                words.back()))
            return false;
    }
    return std::ranges::any_of(words, says_credential);
}

}  // namespace callgate
