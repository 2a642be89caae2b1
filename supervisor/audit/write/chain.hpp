// The hash chain over a log: each line says the hash of the line before it and its own.
//
// `hash = SHA-256("callgate/audit/1\n" || previous || the line's bytes before ,"integrity")`, both in 64
// lower-case hex digits, hashed as those bytes; the first `previous` of a log is 64 zeros. A chain shows that
// lines were changed, removed, inserted or reordered by somebody who did not make it anew from there on; only
// a head that is kept elsewhere, or a signature by a key that is, shows that too (docs/audit.md).
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

    /// What comes before the first line.
    static ChainHash none();
    /// Nothing where `text` is not 64 lower-case hex digits.
    static std::optional<ChainHash> parse(std::string_view text);
    [[nodiscard]] std::string_view view() const { return {digits.data(), digits.size()}; }
    bool operator==(const ChainHash&) const = default;
};

/// Of the line whose bytes before `,"integrity"` are `body`.
[[nodiscard]] ChainHash chain_hash(const ChainHash& previous, std::string_view body);

/// What `end_line` writes behind a body: `,"integrity":{"previous":"…","hash":"…"}}` and a newline, the
/// digits all zero.
inline constexpr std::string_view integrity_head = R"(,"integrity":{"previous":")";
inline constexpr std::string_view integrity_middle = R"(","hash":")";
inline constexpr std::string_view integrity_end = "\"}}\n";
inline constexpr std::size_t integrity_size =
    integrity_head.size() + hash_digits + integrity_middle.size() + hash_digits + integrity_end.size();
void append_open_integrity(Buffer& out);

/// Fills in both hashes of the line that begins at `start` and ends where the buffer does; returns the
/// line's. With a `signature` (base64) that is put behind it.
ChainHash seal(Buffer& line, std::size_t start, const ChainHash& previous);
void sign(Buffer& line, std::string_view signature);

/// A line taken apart, without its newline; the views are into it.
struct SealedLine {
    std::string_view body;
    ChainHash previous, hash;
    std::string_view signature;  // base64; "" none
};
/// Nothing where the line does not end exactly as `seal` and `sign` leave it.
[[nodiscard]] std::optional<SealedLine> take_apart(std::string_view line);

}  // namespace callgate::audit
