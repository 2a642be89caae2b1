// Bytes that strangers chose, made safe: for a line of JSON, for a terminal, for a shell.
//
// An attacker controls every byte (names are arbitrary but for NUL, arguments too). Nothing that comes out
// holds a control character, a line or direction change, a character that is not seen, or bytes that are not
// UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.hpp"

namespace callgate {

/// One character of UTF-8 as RFC 3629 has it (no overlong forms, no surrogates). `length` 0: the first byte
/// begins none.
struct Character {
    char32_t point = 0;
    std::size_t length = 0;
};
[[nodiscard]] Character decode_utf8(std::string_view bytes);

[[nodiscard]] bool is_utf8(std::string_view bytes);

/// Whether a terminal or an editor would do something else than show the character: control, format,
/// bidirectional, zero-width, separators of lines and paragraphs, tags, fillers, noncharacters.
[[nodiscard]] bool is_hidden(char32_t point);

/// Appends `"…"`: hidden characters as \uXXXX (beyond the BMP as a pair), bytes that are not UTF-8 as the
/// four characters \xNN. Returns false where there were such bytes: the text alone does not give the bytes
/// back.
bool append_json_string(Buffer& out, std::string_view bytes);

/// Appends the base64 (RFC 4648, padded) of `bytes`, without quotes.
void append_base64(Buffer& out, std::string_view bytes);
/// The bytes again, with or without padding; nothing where it is no base64.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view encoded);

/// What `append_json_string` appends.
[[nodiscard]] std::string json_string(std::string_view bytes);

/// For a terminal: hidden characters as \u202e, control characters and bytes that are not UTF-8 as \x1b.
[[nodiscard]] std::string terminal_safe(std::string_view bytes);

/// One word for sh and bash that means exactly `bytes`: bare, in single quotes, or as $'\x1b' (bash, zsh,
/// ksh) where bytes are outside printable ASCII.
[[nodiscard]] std::string shell_quote(std::string_view bytes);

}  // namespace callgate
