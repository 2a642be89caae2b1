// Explains why a text is no JSON, in words for the person who wrote it by hand.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace callgate::rules {

/// The place where the reader stopped.
struct JsonError {
    std::string_view text;
    std::size_t token = 0;  // offset of the token that does not fit; the text's size at its end
    char separator = '\0';  // the last "," or ":" before it, behind the last token that did fit
    enum class Within { nothing, list, object } within = Within::nothing;
    int opened = 0;             // the line in which that list or object begins
    bool after_key = false;     // the last token that did fit is a key
    bool after_value = false;   // it is a value, or the end of one
    std::string_view parser{};  // the parser's own message
};

/// The message, and whether the fault lies within the token rather than at its begin.
struct JsonErrorText {
    std::string message;
    bool inside = false;
};
[[nodiscard]] JsonErrorText explain(const JsonError& error);

}  // namespace callgate::rules
