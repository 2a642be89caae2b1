// Parts of settings files by the keys that a list allows, one function for each format.
//
// Comments are left out: a credential that was commented out is one all the same. A line that is not
// understood goes, or the whole file has no copy. The content is the user's, or a target's where a rule lets
// it write there. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::calls {

/// The largest file that is copied, in bytes.
inline constexpr std::size_t max_settings = 1U << 20;

/// The text without blanks and line ends on both sides.
[[nodiscard]] std::string_view trimmed(std::string_view text);

[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view content);

/// The text without one pair of quotes around it, single or double.
[[nodiscard]] std::string_view unquoted(std::string_view text);

/// A URL without user, query and fragment; other text as it is. "sparse+https://" and the like count as URLs.
[[nodiscard]] std::string without_credentials(std::string_view text);

/// A comment begins after a blank, or in the middle of a word too.
enum class CommentAt : std::uint8_t { blank, anywhere };

/// A value in quotes or without, and without the comment behind it. Nothing if an escape could hide a URL.
[[nodiscard]] std::optional<std::string_view> without_comment(std::string_view text, std::string_view marks,
                                                              CommentAt place = CommentAt::blank);

/// Whether a key may stay.
using Allowed = bool (*)(std::string_view key);

/// `key = value` lines with `#` and `;` comments and `[sections]`. `continued`: lines that begin with a blank
/// go on with the value.
[[nodiscard]] std::string ini_copy(std::string_view content, bool continued, Allowed allowed);

/// The subset of TOML that the tools' own pages use: tables, and values on one line. Arrays and inline tables
/// may have several lines. `keys`: words with blanks between, for members of inline tables too.
/// `places`: the heading of a table whose keys are names, and whose values are URLs. Nothing if a line is
/// none of that.
[[nodiscard]] std::optional<std::string> toml_copy(std::string_view content, std::string_view keys,
                                                   std::string_view places = {});

/// Block mappings alone: `key: value`, or `key:` with deeper lines. A line that is neither belongs to the key
/// above it, and is left out. `keys`: words with blanks between.
[[nodiscard]] std::string yaml_copy(std::string_view content, std::string_view keys);

/// RubyGems' settings: `:key: value` or `key: value` at the start of a line, and lists of `- value` below.
[[nodiscard]] std::string gemrc_copy(std::string_view content, std::string_view keys);

/// Bundler's settings: `KEY: "value"` lines.
[[nodiscard]] std::string bundle_copy(std::string_view content, Allowed allowed);

/// Composer's settings: of "config" the members that `keys` names, with values of at most one level, and of
/// each repository its place. Nothing if this is no JSON object.
[[nodiscard]] std::optional<std::string> composer_copy(std::string_view content, std::string_view keys);

/// `elements`: names of elements that stay, with all their attributes. Nothing if this is no XML.
[[nodiscard]] std::optional<std::string> xml_copy(std::string_view content, std::string_view elements);

}  // namespace callgate::calls
