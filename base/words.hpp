// Words, and lists of words in one text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace callgate {

/// With small letters in place of ASCII's capitals.
[[nodiscard]] inline std::string lower_case(std::string_view text) {
    std::string result(text);
    for (char& one : result)
        if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
    return result;
}

/// The words with `separator` between them.
template <class Words>
[[nodiscard]] std::string joined(const Words& words, std::string_view separator) {
    std::string text;
    for (const auto& word : words) {
        if (!text.empty()) text += separator;
        text += word;
    }
    return text;
}

/// The parts between the separators: at least one, which may be empty.
[[nodiscard]] inline std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    for (std::size_t end = 0; (end = text.find(separator)) != std::string_view::npos;
         text.remove_prefix(end + 1))
        parts.emplace_back(text.substr(0, end));
    parts.emplace_back(text);
    return parts;
}

/// Whether `words`, which are separated by single spaces, holds this one.
[[nodiscard]] inline bool has_word(std::string_view words, std::string_view word) {
    if (word.empty() || word.find(' ') != std::string_view::npos) return false;
    const auto ends_word = [words](std::size_t at) { return at == words.size() || words[at] == ' '; };
    for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1))
        if ((at == 0 || words[at - 1] == ' ') && ends_word(at + word.size())) return true;
    return false;
}

}  // namespace callgate
