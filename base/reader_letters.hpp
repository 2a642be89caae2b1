// Names for a person to read: which letters are shown as they are, and which as bytes.
//
// An attacker controls every byte of a name, and a person judges by what the name looks like. So a letter
// beyond ASCII is shown only where the reader knows it and it looks like no other. The locale is UTF-8. The
// letter is Latin, or of the script that the locale's language is written in. A component of a path, without
// its extension, has letters of one script. In a script that shares shapes with Latin (Cyrillic, Greek,
// Armenian) one of them at least has a shape of its own. Everything else is \xNN: marks that combine, signs,
// scripts that are written from right to left, and what is not composed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace callgate {

class ReaderLetters {
public:
    /// Takes the name of a locale ("ru_RU.UTF-8").
    explicit ReaderLetters(std::string_view locale);
    /// Reads the first of LC_ALL, LC_CTYPE and LANG that says something.
    [[nodiscard]] static ReaderLetters of_environment();

    [[nodiscard]] bool utf8() const { return utf8_; }
    /// A name, or a text whose words stand between `separators`. A backslash is doubled.
    [[nodiscard]] std::string shown(std::string_view bytes, std::string_view separators = "/") const;

private:
    [[nodiscard]] bool readable(std::string_view component) const;

    bool utf8_ = false;
    std::uint8_t language_ = 0;  // an index of the table of languages
};

/// `bytes` for whoever reads what this process writes.
[[nodiscard]] std::string shown_name(std::string_view bytes);
[[nodiscard]] std::string shown_words(std::string_view bytes);

/// As shown_name, and in double quotes if it holds a space. A program chooses the name, and its words could
/// pass for more of the line in which it stands.
[[nodiscard]] std::string delimited_name(std::string_view bytes);

/// How many columns a shown name takes at most: a letter beyond ASCII may take two.
[[nodiscard]] std::size_t columns_of(std::string_view shown);
/// The longest beginning of a shown name that takes at most `columns`: its bytes.
[[nodiscard]] std::size_t fitting(std::string_view shown, std::size_t columns);

}  // namespace callgate
