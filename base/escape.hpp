// Makes bytes that an attacker chose safe for a line of JSON, for a terminal and for a shell.
//
// An attacker controls every byte (names are arbitrary except for NUL, and so are arguments). The output
// holds no control character and no line or direction change. It holds no invisible character and no bytes
// that are not UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.hpp"

namespace callgate {

/// A character of UTF-8 as RFC 3629 defines it (no overlong forms, no surrogates). `length` is 0 if the first
/// byte does not begin a character.
struct Character {
    char32_t point = 0;
    std::size_t length = 0;
};
[[nodiscard]] Character decode_utf8(std::string_view bytes);

[[nodiscard]] bool is_utf8(std::string_view bytes);

/// Whether a terminal or an editor would do something other than show the character. This holds for control,
/// format, bidirectional and zero-width characters, tags, fillers and noncharacters, and for separators of
/// lines and paragraphs.
[[nodiscard]] bool is_hidden(char32_t point);

/// Appends `"…"`: hidden characters as \uXXXX (beyond the BMP as a pair), bytes that are not UTF-8 as the
/// four characters \xNN. Returns false if there were such bytes: then the text alone cannot restore the
/// bytes.
bool append_json_string(Buffer& out, std::string_view bytes);

/// Appends the base64 (RFC 4648, padded) of `bytes`, without quotes.
void append_base64(Buffer& out, std::string_view bytes);
/// Decodes base64 with or without padding. Returns nullopt if `encoded` is not base64.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view encoded);

/// The text that `append_json_string` appends.
[[nodiscard]] std::string json_string(std::string_view bytes);

/// The text for a terminal: hidden characters as \u202e, control characters and bytes that are not UTF-8 as
/// \x1b.
[[nodiscard]] std::string terminal_safe(std::string_view bytes);

/// A single word for sh and bash that means exactly `bytes`. It is bare or in single quotes. If bytes are
/// outside printable ASCII, it is written as $'\x1b' (bash, zsh, ksh).
[[nodiscard]] std::string shell_quote(std::string_view bytes);

}  // namespace callgate
