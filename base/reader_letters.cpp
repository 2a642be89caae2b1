#include "base/reader_letters.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <iterator>

#include "base/escape.hpp"

namespace callgate {

namespace {

enum Script : std::uint8_t { none, latin, cyrillic, greek, armenian, georgian, han, kana, hangul, bopomofo };

struct Letters {
    char32_t first, last;
    Script script;
};

/// Letters of Unicode 15, composed, without those that are taken for another sign (ı, ĸ, ſ, ŀ, 丨, 丿).
constexpr Letters letters[] = {
    {0x00C0, 0x00D6, latin},    {0x00D8, 0x00F6, latin},    {0x00F8, 0x0130, latin},
    {0x0132, 0x0137, latin},    {0x0139, 0x013E, latin},    {0x0141, 0x0148, latin},
    {0x014A, 0x017E, latin},    {0x01A0, 0x01A1, latin},    {0x01AF, 0x01B0, latin},
    {0x0218, 0x021B, latin},    {0x0386, 0x0386, greek},    {0x0388, 0x038A, greek},
    {0x038C, 0x038C, greek},    {0x038E, 0x03A1, greek},    {0x03A3, 0x03CE, greek},
    {0x0400, 0x0481, cyrillic}, {0x048A, 0x052F, cyrillic}, {0x0531, 0x0556, armenian},
    {0x0561, 0x0586, armenian}, {0x10D0, 0x10F0, georgian}, {0x1E80, 0x1E85, latin},
    {0x1E9E, 0x1E9E, latin},    {0x1EA0, 0x1EF9, latin},    {0x3005, 0x3005, han},
    {0x3041, 0x3096, kana},     {0x30A1, 0x30FA, kana},     {0x30FC, 0x30FC, kana},
    {0x3105, 0x312F, bopomofo}, {0x3400, 0x4DBF, han},      {0x4E00, 0x4E27, han},
    {0x4E29, 0x4E35, han},      {0x4E37, 0x4E3E, han},      {0x4E40, 0x9FFC, han},
    {0xAC00, 0xD7A3, hangul},
};

/// Letters that look like Latin ones, in the order of their numbers.
constexpr char32_t like_latin[] = {
    0x0391, 0x0392, 0x0395, 0x0396, 0x0397, 0x0399, 0x039A, 0x039C, 0x039D, 0x039F, 0x03A1, 0x03A4,
    0x03A5, 0x03A7, 0x03B1, 0x03B3, 0x03B9, 0x03BA, 0x03BD, 0x03BF, 0x03C1, 0x03C3, 0x03C5, 0x03C7,
    0x0405, 0x0406, 0x0408, 0x0410, 0x0412, 0x0415, 0x041A, 0x041C, 0x041D, 0x041E, 0x0420, 0x0421,
    0x0422, 0x0423, 0x0425, 0x042C, 0x0430, 0x0431, 0x0432, 0x0433, 0x0435, 0x0437, 0x043A, 0x043C,
    0x043D, 0x043E, 0x043F, 0x0440, 0x0441, 0x0442, 0x0443, 0x0445, 0x044A, 0x044C, 0x0455, 0x0456,
    0x0458, 0x0474, 0x0475, 0x04AE, 0x04AF, 0x04BA, 0x04BB, 0x04BC, 0x04BD, 0x04C0, 0x04CF, 0x0501,
    0x050C, 0x050D, 0x051A, 0x051B, 0x051C, 0x051D, 0x053C, 0x0544, 0x054D, 0x054F, 0x0555, 0x0561,
    0x0563, 0x0566, 0x0568, 0x056C, 0x0570, 0x0578, 0x057D, 0x0581, 0x0582, 0x0584, 0x0585,
};
static_assert(std::is_sorted(std::begin(like_latin), std::end(like_latin)));

struct Language {
    std::string_view code;
    std::array<Script, 3> scripts;  // beside Latin; they stand in one component together
};

constexpr Language languages[] = {
    {"", {}},
    {"be", {cyrillic}},
    {"bg", {cyrillic}},
    {"kk", {cyrillic}},
    {"ky", {cyrillic}},
    {"mk", {cyrillic}},
    {"mn", {cyrillic}},
    {"ru", {cyrillic}},
    {"sr", {cyrillic}},
    {"tg", {cyrillic}},
    {"tt", {cyrillic}},
    {"uk", {cyrillic}},
    {"el", {greek}},
    {"hy", {armenian}},
    {"ka", {georgian}},
    {"ja", {han, kana}},
    {"ko", {han, hangul}},
    {"zh", {han, bopomofo}},
};

Script script_of(char32_t point) {
    if ((point >= 'A' && point <= 'Z') || (point >= 'a' && point <= 'z')) return latin;
    const auto* const after =
        std::upper_bound(std::begin(letters), std::end(letters), point,
                         [](char32_t value, const Letters& range) { return value < range.first; });
    if (after == std::begin(letters) || point > std::prev(after)->last) return none;
    return std::prev(after)->script;
}

/// A short extension of ASCII letters and digits has no say: "отчёт.txt" is one name of one script.
std::string_view without_extension(std::string_view component) {
    constexpr std::size_t longest = 8;
    const std::size_t dot = component.rfind('.');
    if (dot == std::string_view::npos || component.size() - dot > longest + 1) return component;
    const bool plain =
        std::all_of(component.begin() + static_cast<std::ptrdiff_t>(dot) + 1, component.end(), [](char one) {
            return std::isalnum(static_cast<unsigned char>(one)) != 0 &&
                   static_cast<unsigned char>(one) < 0x80;
        });
    return plain ? component.substr(0, dot) : component;
}

void append_bytes(std::string& text, std::string_view bytes, bool as_they_are) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (const char one : bytes) {
        const auto byte = static_cast<unsigned char>(one);
        if (one == '\\') {
            text += "\\\\";
        } else if ((byte >= 0x20 && byte < 0x7f) || (byte >= 0x80 && as_they_are)) {
            text += one;
        } else {
            text += "\\x";
            text += digits[byte >> 4U];
            text += digits[byte & 15U];
        }
    }
}

bool is_continuation(char one) { return (static_cast<unsigned char>(one) & 0xC0) == 0x80; }

}  // namespace

ReaderLetters::ReaderLetters(std::string_view locale) {
    std::string plain;
    for (const char one : locale)
        if (std::isalnum(static_cast<unsigned char>(one)) != 0)
            plain += static_cast<char>(std::tolower(static_cast<unsigned char>(one)));
    utf8_ = plain.find("utf8") != std::string::npos;
    // A Serbian may write Latin letters ("sr_RS.UTF-8@latin"): these are shown in any case.
    const std::string_view code = locale.substr(0, locale.find_first_of("_.@"));
    const auto* const found = std::find_if(std::begin(languages), std::end(languages),
                                           [code](const Language& one) { return one.code == code; });
    if (found != std::end(languages)) language_ = static_cast<std::uint8_t>(found - std::begin(languages));
}

ReaderLetters ReaderLetters::of_environment() {
    for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"})
        if (const char* const value = ::getenv(name); value != nullptr && *value != '\0')
            return ReaderLetters(value);
    return ReaderLetters("");
}

bool ReaderLetters::readable(std::string_view component) const {
    const auto& known = languages[language_].scripts;
    bool latins = false, others = false, own_shape = false;
    for (std::string_view rest = without_extension(component); !rest.empty();) {
        const Character one = decode_utf8(rest);
        if (one.length == 0) return false;
        rest.remove_prefix(one.length);
        const Script script = script_of(one.point);
        if (one.point < 0x80 && script == none) continue;  // digits and signs are of every script
        if (script == none) return false;
        if (script == latin) {
            latins = true;
            continue;
        }
        if (std::find(known.begin(), known.end(), script) == known.end()) return false;
        others = true;
        own_shape = own_shape || !std::binary_search(std::begin(like_latin), std::end(like_latin), one.point);
    }
    return !others || (!latins && own_shape);
}

std::string ReaderLetters::shown(std::string_view bytes, std::string_view separators) const {
    std::string text;
    while (!bytes.empty()) {
        const std::size_t end = std::min(bytes.find_first_of(separators), bytes.size());
        const std::string_view component = bytes.substr(0, end);
        append_bytes(text, component, utf8_ && readable(component));
        if (end < bytes.size()) text += bytes[end];
        bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
    return text;
}

namespace {
const ReaderLetters& reader() {
    static const ReaderLetters one = ReaderLetters::of_environment();
    return one;
}
}  // namespace

std::string shown_name(std::string_view bytes) { return reader().shown(bytes); }
std::string shown_words(std::string_view bytes) { return reader().shown(bytes, "/ "); }

std::string delimited_name(std::string_view bytes) {
    const std::string shown = shown_name(bytes);
    if (shown.find(' ') == std::string::npos) return shown;
    std::string quoted = "\"";
    for (const char one : shown) (quoted += one == '"' ? "\\" : "") += one;
    return quoted + '"';
}

std::size_t columns_of(std::string_view shown) {
    std::size_t columns = 0;
    for (const char one : shown)
        if (!is_continuation(one)) columns += static_cast<unsigned char>(one) < 0x80 ? 1 : 2;
    return columns;
}

std::size_t fitting(std::string_view shown, std::size_t columns) {
    std::size_t end = 0;
    for (std::size_t taken = 0; end < shown.size();) {
        taken += static_cast<unsigned char>(shown[end]) < 0x80 ? 1 : 2;
        if (taken > columns) break;
        ++end;
        while (end < shown.size() && is_continuation(shown[end])) ++end;
    }
    return end;
}

}  // namespace callgate
