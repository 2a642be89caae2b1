// The text of a git repository's settings: a strict part of git's grammar (git-config(1)), and its writing.
//
// An attacker has written the text whole. What git could read in another way is not parsed: continued lines,
// control characters, unclosed quotes, several things on a line. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.hpp"

namespace callgate::calls {

struct GitConfigSection {
    std::string name;                       // as written
    std::optional<std::string> subsection;  // case matters
};

/// A line of the file: a comment or blank line, a section's head, or a setting with its section.
struct GitConfigLine {
    enum class Kind : std::uint8_t { other, section, setting } kind = Kind::other;
    std::string comment;  // with its mark; may be empty
    GitConfigSection section{};
    std::string key{};                   // as written
    std::optional<std::string> value{};  // absent: the key stands alone, and means true

    /// git's own spelling: section and key in lower case.
    [[nodiscard]] std::string full_key() const {
        const std::string middle = section.subsection ? '.' + *section.subsection : std::string();
        return lower_case(section.name) + middle + '.' + lower_case(key);
    }
};

/// Whether a name of a section or key may hold this character.
[[nodiscard]] bool is_git_name(char one);

/// The lines; nothing if the text is not in the plain form that git writes.
[[nodiscard]] std::optional<std::vector<GitConfigLine>> parse_git_config(std::string_view text);

/// The text of these lines, as git writes it.
[[nodiscard]] std::string git_config_text(const std::vector<GitConfigLine>& lines);

}  // namespace callgate::calls
