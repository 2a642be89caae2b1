#include "rules/load/json_error.hpp"

#include <algorithm>

#include "rules/load/diagnostic.hpp"

namespace callgate::rules {
namespace {

bool is_letter(char one) { return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || one == '_'; }

std::string_view word_at(std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && (is_letter(text[end]) || (text[end] >= '0' && text[end] <= '9'))) ++end;
    return text.substr(at, end - at);
}

/// "the list that begins in line 3"
std::string open_part(const JsonError& error) {
    const bool list = error.within == JsonError::Within::list;
    return std::string(list ? "the list" : "the object") + " that begins in line " +
           std::to_string(error.opened);
}

std::string closing(const JsonError& error) {
    return error.within == JsonError::Within::list ? "\"]\"" : "\"}\"";
}

std::string without_quotes(std::string_view word) {
    if (word == "True" || word == "TRUE") return "\"" + std::string(word) + "\" is no JSON: write true";
    if (word == "False" || word == "FALSE") return "\"" + std::string(word) + "\" is no JSON: write false";
    if (word == "None" || word == "nil" || word == "undefined")
        return "\"" + std::string(word) + "\" is no JSON: write null, or leave the member out";
    return "the word " + in_quotes(word) + " has no quotes: names and strings stand in double quotes";
}

/// The rest of the parser's message: "syntax error while parsing value - WHAT; last read: ...".
std::string parsers_words(std::string_view message) {
    if (const std::size_t dash = message.find(" - "); dash != std::string_view::npos)
        message.remove_prefix(dash + 3);
    if (message.starts_with('[')) message.remove_prefix(std::min(message.find(' ') + 1, message.size()));
    return "this is no JSON: " + std::string(message.substr(0, message.find("; last read")));
}

}  // namespace

JsonErrorText explain(const JsonError& error) {
    using Within = JsonError::Within;
    const bool open = error.within != Within::nothing;
    if (error.token >= error.text.size())
        return {open ? "the text ends, and " + open_part(error) + " is not closed: expected " + closing(error)
                     : "the text is empty: expected JSON text"};
    const std::string_view rest = error.text.substr(error.token);
    const char first = rest.front();
    for (const char* const separator : {",", ":"})
        if (error.parser.find(" - unexpected '" + std::string(separator)) != std::string_view::npos)
            return {"a \"" + std::string(separator) + "\" too many before this"};
    if (!open && error.after_value) return {"more text follows the end: expected nothing after it"};
    if (error.parser.find("invalid string") != std::string_view::npos && first == '"')
        return {parsers_words(error.parser), true};
    if (first == '\'' || rest.starts_with("\xe2\x80\x9c") || rest.starts_with("\xe2\x80\x9d"))
        return {"a string stands in plain double quotes (\"), not in other ones"};
    if (first == ']' || first == '}') {
        if (error.separator == ',')
            return {"a comma stands before this \"" + std::string(1, first) + "\": take the comma out"};
        if (error.after_key) return {"a value is missing after the name"};
        if (open) return {open_part(error) + " ends with " + closing(error)};
    }
    const std::string_view word = word_at(error.text, error.token);
    if (is_letter(first) && word != "true" && word != "false" && word != "null")
        return {without_quotes(word)};
    if (error.separator == '\0' && error.after_key) return {"a colon is missing after the name"};
    if (error.separator == '\0' && error.after_value && open) return {"a comma is missing before this"};
    if (error.within == Within::object && !error.after_key && first != '"')
        return {"a name in double quotes is missing here"};
    return {parsers_words(error.parser), error.parser.find(" - unexpected ") == std::string_view::npos};
}

}  // namespace callgate::rules
