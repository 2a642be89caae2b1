#include "supervisor/audit/write/chain.hpp"

#include <algorithm>
#include <cstring>

#include "base/sha256.hpp"

namespace callgate::audit {

namespace {

constexpr std::string_view context = "callgate/audit/1\n";
constexpr std::string_view signature_middle = R"(","signature":")";
constexpr std::string_view line_end = "\"}}";
constexpr std::string_view integrity_name = R"(,"integrity":)";

/// Takes `text` from the front of `rest`.
bool take(std::string_view& rest, std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
}

std::optional<ChainHash> take_hash(std::string_view& rest) {
    const auto hash = ChainHash::parse(rest.substr(0, hash_digits));
    if (hash) rest.remove_prefix(hash_digits);
    return hash;
}

bool is_base64(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char one) {
        return (one >= 'A' && one <= 'Z') || (one >= 'a' && one <= 'z') || (one >= '0' && one <= '9') ||
               one == '+' || one == '/' || one == '=';
    });
}

}  // namespace

ChainHash ChainHash::none() {
    ChainHash hash;
    hash.digits.fill('0');
    return hash;
}

std::optional<ChainHash> ChainHash::parse(std::string_view text) {
    const auto hex = [](char one) { return (one >= '0' && one <= '9') || (one >= 'a' && one <= 'f'); };
    if (text.size() != hash_digits || !std::all_of(text.begin(), text.end(), hex)) return std::nullopt;
    ChainHash hash;
    std::copy(text.begin(), text.end(), hash.digits.begin());
    return hash;
}

ChainHash chain_hash(const ChainHash& previous, std::string_view body) {
    Sha256 hash;
    hash.add(context);
    hash.add(previous.view());
    hash.add(body);
    return {Sha256::hex(hash.digest())};
}

void append_open_integrity(Buffer& out) {
    static const ChainHash zeros = ChainHash::none();
    out << integrity_head << zeros.view() << integrity_middle << zeros.view() << integrity_end;
}

ChainHash seal(Buffer& line, std::size_t start, const ChainHash& previous) {
    const std::size_t body_end = line.size() - integrity_size;
    const ChainHash hash = chain_hash(previous, line.view().substr(start, body_end - start));
    char* const tail = line.data() + body_end;
    std::memcpy(tail + integrity_head.size(), previous.digits.data(), hash_digits);
    std::memcpy(tail + integrity_head.size() + hash_digits + integrity_middle.size(), hash.digits.data(),
                hash_digits);
    return hash;
}

void sign(Buffer& line, std::string_view signature) {
    line.drop(integrity_end.size());
    line << signature_middle << signature << integrity_end;
}

std::optional<SealedLine> take_apart(std::string_view line) {
    const std::size_t at = line.rfind(integrity_name);
    if (at == std::string_view::npos) return std::nullopt;
    SealedLine sealed;
    sealed.body = line.substr(0, at);
    std::string_view rest = line.substr(at);
    if (!take(rest, integrity_head)) return std::nullopt;
    const auto previous = take_hash(rest);
    if (!previous || !take(rest, integrity_middle)) return std::nullopt;
    const auto hash = take_hash(rest);
    if (!hash) return std::nullopt;
    sealed.previous = *previous;
    sealed.hash = *hash;
    if (take(rest, signature_middle)) {
        sealed.signature = rest.substr(0, rest.find('"'));
        rest.remove_prefix(sealed.signature.size());
        if (!is_base64(sealed.signature)) return std::nullopt;
    }
    if (rest != line_end) return std::nullopt;
    return sealed;
}

}  // namespace callgate::audit
