// JSON text as a tree in which every key and value knows its line and column.
//
// The text may be hostile. Bounded before anything is built: size, bytes that are not UTF-8, NUL. Bounded
// while reading, without recursion: nesting. So the tree is at most `deepest` deep and proportional to the
// text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/diagnostic.hpp"

namespace callgate::rules {

inline constexpr std::size_t largest_text = 1024 * 1024;
inline constexpr std::size_t deepest_nesting = 64;

struct JsonMember;

struct JsonValue {
    enum class Kind : unsigned char { null, boolean, number, string, array, object };
    Kind kind = Kind::null;
    bool boolean = false;
    int line = 1, column = 1;  // both from 1; columns count bytes
    std::string text;          // a string's value, or a number as it was written
    std::vector<JsonValue> items;
    std::vector<JsonMember> members;

    [[nodiscard]] const JsonMember* member(std::string_view key) const;
};

struct JsonMember {
    std::string key;
    int line = 1, column = 1;
    JsonValue value;
};

/// Reads one JSON text (comments `//` and `/* */` allowed). Syntax errors, duplicate keys and strings that
/// hold a NUL go to `findings`. Nothing is returned where the text could not be read to its end.
[[nodiscard]] std::optional<JsonValue> parse_json(std::string_view text, Findings& findings);

/// The tree without comments, blanks and order of keys: what a hash of a rule file is made of.
[[nodiscard]] std::string canonical_json(const JsonValue& value);

/// "a list", "the number 3", "the string \"x\"": for messages.
[[nodiscard]] std::string describe(const JsonValue& value);

}  // namespace callgate::rules
