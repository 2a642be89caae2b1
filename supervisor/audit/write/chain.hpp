// The hash chain over a log: each line states its own hash and the hash of the line before it.
//
// `hash = SHA-256("callgate/audit/1\n" || previous || the line's bytes before ,"integrity")`. Both hashes are
// 64 lower-case hex digits, and `previous` is hashed as those bytes. The first `previous` of a log is 64
// zeros. A chain shows that lines were changed, removed, inserted or reordered, unless an attacker made it
// anew from there on. Only a head that is kept elsewhere, or a signature by a key that is kept elsewhere,
// shows that too (docs/audit.md).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.hpp"

namespace callgate::audit {

inline constexpr std::size_t hash_digits = 64;

/// 64 lower-case hex digits.
struct ChainHash {
    std::array<char, hash_digits> digits{};

    /// The `previous` of the first line.
    static ChainHash none();
    /// Returns nullopt if `text` is not 64 lower-case hex digits.
    static std::optional<ChainHash> parse(std::string_view text);
    [[nodiscard]] std::string_view view() const { return {digits.data(), digits.size()}; }
    bool operator==(const ChainHash&) const = default;
};

/// The hash of the line whose bytes before `,"integrity"` are `body`.
[[nodiscard]] ChainHash chain_hash(const ChainHash& previous, std::string_view body);

/// `end_line` writes these parts behind a body: `,"integrity":{"previous":"…","hash":"…"}}` and a newline.
/// The digits are all zero.
inline constexpr std::string_view integrity_head = R"(,"integrity":{"previous":")";
inline constexpr std::string_view integrity_middle = R"(","hash":")";
inline constexpr std::string_view integrity_end = "\"}}\n";
inline constexpr std::size_t integrity_size =
    integrity_head.size() + hash_digits + integrity_middle.size() + hash_digits + integrity_end.size();
void append_open_integrity(Buffer& out);

/// Fills in both hashes of the line that begins at `start` and ends where the buffer does. Returns the line's
/// own hash. `sign` puts a `signature` (base64) behind it.
ChainHash seal(Buffer& line, std::size_t start, const ChainHash& previous);
void sign(Buffer& line, std::string_view signature);

/// A line taken apart, without its newline; the views point into it.
struct SealedLine {
    std::string_view body;
    ChainHash previous, hash;
    std::string_view signature;  // base64; "" if there is none
};
/// Returns nullopt if the line does not end exactly as `seal` and `sign` leave it.
[[nodiscard]] std::optional<SealedLine> take_apart(std::string_view line);

}  // namespace callgate::audit
