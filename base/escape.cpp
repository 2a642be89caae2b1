#include "base/escape.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace callgate {

namespace {

struct Range {
    char32_t first, last;
};

/// General categories Cc, Cf, Zl and Zp of Unicode 15, plus fillers and joiners that are invisible.
constexpr Range hidden[] = {
    {0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x0600, 0x0605},
    {0x061C, 0x061C},   {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},
    {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F},   {0x3164, 0x3164},   {0xFDD0, 0xFDEF},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
    {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};

constexpr std::string_view hex = "0123456789abcdef";

/// Printable ASCII that needs no escape in a JSON string.
constexpr auto plain = [] {
    std::array<bool, 256> table{};
    for (std::size_t byte = 0x20; byte < 0x7F; ++byte) table[byte] = byte != '"' && byte != '\\';
    return table;
}();

void append_hex(Buffer& out, std::string_view prefix, unsigned value, int digits) {
    out << prefix;
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) out << hex[(value >> shift) & 0xF];
}

void append_unicode_escape(Buffer& out, char32_t point) {
    if (point < 0x10000) return append_hex(out, "\\u", point, 4);
    const auto offset = static_cast<unsigned>(point - 0x10000);
    append_hex(out, "\\u", 0xD800 + (offset >> 10), 4);
    append_hex(out, "\\u", 0xDC00 + (offset & 0x3FF), 4);
}

/// Appends a character that is not plain. Returns how many bytes it took; sets `valid` to false if they were
/// not UTF-8.
std::size_t append_special(Buffer& out, std::string_view rest, bool& valid) {
    const auto byte = static_cast<unsigned char>(rest.front());
    if (byte == '"' || byte == '\\') {
        out << '\\' << rest.front();
        return 1;
    }
    const Character one = decode_utf8(rest);
    if (one.length == 0) {
        append_hex(out, "\\\\x", byte, 2);
        valid = false;
        return 1;
    }
    if (is_hidden(one.point)) {
        append_unicode_escape(out, one.point);
    } else {
        out << rest.substr(0, one.length);
    }
    return one.length;
}

constexpr bool is_bare(unsigned char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           std::string_view("_@%+=:,./-").find(static_cast<char>(byte)) != std::string_view::npos;
}

}  // namespace

Character decode_utf8(std::string_view bytes) {
    if (bytes.empty()) return {};
    const auto at = [&bytes](std::size_t index) { return static_cast<unsigned char>(bytes[index]); };
    const unsigned char lead = at(0);
    if (lead < 0x80) return {lead, 1};
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || bytes.size() < length) return {};
    char32_t point = lead & (0x7FU >> length);
    for (std::size_t index = 1; index < length; ++index) {
        if ((at(index) & 0xC0) != 0x80) return {};
        point = point << 6 | (at(index) & 0x3FU);
    }
    constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return {};
    return {point, length};
}

bool is_utf8(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto beyond = std::find_if(bytes.begin(), bytes.end(),
                                         [](char one) { return static_cast<unsigned char>(one) >= 0x80; });
        bytes.remove_prefix(static_cast<std::size_t>(beyond - bytes.begin()));
        if (bytes.empty()) return true;
        const Character one = decode_utf8(bytes);
        if (one.length == 0) return false;
        bytes.remove_prefix(one.length);
    }
    return true;
}

bool is_hidden(char32_t point) {
    if ((point & 0xFFFE) == 0xFFFE) return true;
    const auto after =
        std::upper_bound(std::begin(hidden), std::end(hidden), point,
                         [](char32_t value, const Range& range) { return value < range.first; });
    return after != std::begin(hidden) && point <= std::prev(after)->last;
}

bool append_json_string(Buffer& out, std::string_view bytes) {
    bool valid = true;
    out << '"';
    while (!bytes.empty()) {
        const auto stop = std::find_if(bytes.begin(), bytes.end(),
                                       [](char one) { return !plain[static_cast<unsigned char>(one)]; });
        const auto run = static_cast<std::size_t>(stop - bytes.begin());
        out << bytes.substr(0, run);
        bytes.remove_prefix(run);
        if (!bytes.empty()) bytes.remove_prefix(append_special(out, bytes, valid));
    }
    out << '"';
    return valid;
}

std::string json_string(std::string_view bytes) {
    Buffer out(bytes.size() + 16);
    append_json_string(out, bytes);
    return std::string(out.view());
}

namespace {
constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr unsigned char no_digit = 64;
constexpr auto base64_values = [] {
    std::array<unsigned char, 256> table{};
    table.fill(no_digit);
    for (unsigned char digit = 0; digit < no_digit; ++digit)
        table[static_cast<unsigned char>(base64_digits[digit])] = digit;
    return table;
}();
}  // namespace

std::optional<std::string> decode_base64(std::string_view encoded) {
    std::string bytes;
    unsigned buffer = 0;
    int bits = 0;
    while (encoded.ends_with('=')) encoded.remove_suffix(1);
    for (const char one : encoded) {
        const unsigned digit = base64_values[static_cast<unsigned char>(one)];
        if (digit == no_digit) return std::nullopt;
        buffer = (buffer << 6U | digit) & 0xffffffU;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes += static_cast<char>(buffer >> static_cast<unsigned>(bits) & 0xffU);
    }
    return bytes;
}

void append_base64(Buffer& out, std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
        unsigned group = 0;
        for (std::size_t index = 0; index < 3; ++index) {
            group = group << 8 | (index < count ? static_cast<unsigned char>(bytes[at + index]) : 0U);
        }
        for (std::size_t index = 0; index < 4; ++index) {
            out << (index <= count ? base64_digits[(group >> (18 - 6 * index)) & 0x3F] : '=');
        }
    }
}

std::string terminal_safe(std::string_view bytes) {
    Buffer out(bytes.size() + 16);
    while (!bytes.empty()) {
        const Character one = decode_utf8(bytes);
        const std::size_t taken = one.length == 0 ? 1 : one.length;
        if (one.length == 0 || (one.length == 1 && is_hidden(one.point))) {
            append_hex(out, "\\x", static_cast<unsigned char>(bytes.front()), 2);
        } else if (is_hidden(one.point)) {
            append_hex(out, "\\u", one.point, one.point < 0x10000 ? 4 : 6);
        } else {
            out << bytes.substr(0, taken);
        }
        bytes.remove_prefix(taken);
    }
    return std::string(out.view());
}

std::string shell_quote(std::string_view bytes) {
    const auto all = [&bytes](auto test) {
        return std::all_of(bytes.begin(), bytes.end(),
                           [&test](char one) { return test(static_cast<unsigned char>(one)); });
    };
    // zsh replaces a word with a leading '=' by the path of a command.
    if (!bytes.empty() && bytes.front() != '=' && all(is_bare)) return std::string(bytes);
    const bool printable = all([](unsigned char byte) { return byte >= 0x20 && byte < 0x7F; });
    Buffer out(bytes.size() + 16);
    out << (printable ? "'" : "$'");
    for (const char one : bytes) {
        const auto byte = static_cast<unsigned char>(one);
        if (printable && one == '\'') {
            out << "'\\''";
        } else if (!printable && (one == '\'' || one == '\\')) {
            out << '\\' << one;
        } else if (byte < 0x20 || byte >= 0x7F) {
            append_hex(out, "\\x", byte, 2);
        } else {
            out << one;
        }
    }
    out << '\'';
    return std::string(out.view());
}

}  // namespace callgate
