#include "rules/load/diagnostic.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace callgate::rules {
namespace {

struct Range {
    std::uint32_t first, last;
};

// Characters that a terminal obeys or hides: controls, bidirectional marks, zero-width and tag characters.
constexpr std::array<Range, 13> hidden{{{0x00, 0x1f},
                                        {0x7f, 0x9f},
                                        {0xad, 0xad},
                                        {0x34f, 0x34f},
                                        {0x61c, 0x61c},
                                        {0x115f, 0x1160},
                                        {0x180b, 0x180e},
                                        {0x200b, 0x200f},
                                        {0x2028, 0x202e},
                                        {0x2060, 0x206f},
                                        {0xfe00, 0xfe0f},
                                        {0xfeff, 0xfeff},
                                        {0xe0000, 0xe0fff}}};

bool is_hidden(std::uint32_t point) {
    for (const Range& range : hidden)
        if (range.first <= point && point <= range.last) return true;
    return false;
}

std::uint32_t decode(std::string_view sequence) {
    const auto byte = [&](std::size_t index) { return static_cast<std::uint32_t>(sequence[index]) & 0xffU; };
    constexpr std::array<std::uint32_t, 5> lead_mask{0, 0x7f, 0x1f, 0x0f, 0x07};
    std::uint32_t point = byte(0) & lead_mask[sequence.size()];
    for (std::size_t index = 1; index < sequence.size(); ++index)
        point = (point << 6U) | (byte(index) & 0x3fU);
    return point;
}

std::string escape(const char* format, std::uint32_t value) {
    std::array<char, 16> buffer{};
    const int length = std::snprintf(buffer.data(), buffer.size(), format, value);
    return {buffer.data(), static_cast<std::size_t>(length)};
}

/// Edit distance with transpositions (optimal string alignment).
std::size_t distance(std::string_view left, std::string_view right) {
    std::vector<std::vector<std::size_t>> cost(left.size() + 1, std::vector<std::size_t>(right.size() + 1));
    for (std::size_t row = 0; row <= left.size(); ++row) cost[row][0] = row;
    for (std::size_t column = 0; column <= right.size(); ++column) cost[0][column] = column;
    for (std::size_t row = 1; row <= left.size(); ++row) {
        for (std::size_t column = 1; column <= right.size(); ++column) {
            const std::size_t change = left[row - 1] == right[column - 1] ? 0 : 1;
            std::size_t best = std::min(
                {cost[row - 1][column] + 1, cost[row][column - 1] + 1, cost[row - 1][column - 1] + change});
            const bool swapped = row > 1 && column > 1 && left[row - 1] == right[column - 2] &&
                                 left[row - 2] == right[column - 1];
            if (swapped) best = std::min(best, cost[row - 2][column - 2] + 1);
            cost[row][column] = best;
        }
    }
    return cost[left.size()][right.size()];
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t offset) {
    const auto byte = [&](std::size_t index) -> unsigned {
        return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
    };
    const auto continued = [&](std::size_t index) { return (byte(index) & 0xc0U) == 0x80U; };
    const unsigned lead = byte(offset);
    if (offset >= text.size()) return 0;
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return continued(offset + 1) ? 2 : 0;
    const unsigned second = byte(offset + 1);
    if (lead >= 0xe0 && lead <= 0xef) {
        // Overlong forms and surrogates are not UTF-8.
        if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f)) return 0;
        return continued(offset + 1) && continued(offset + 2) ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return 0;
        return continued(offset + 1) && continued(offset + 2) && continued(offset + 3) ? 4 : 0;
    }
    return 0;
}

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (std::size_t offset = 0; offset < text.size();) {
        const std::size_t length = utf8_length(text, offset);
        if (length == 0) {
            result += escape("\\x%02x", static_cast<unsigned char>(text[offset]));
            ++offset;
            continue;
        }
        const std::string_view sequence = text.substr(offset, length);
        const std::uint32_t point = decode(sequence);
        if (point == '\n')
            result += "\\n";
        else if (point == '\t')
            result += "\\t";
        else if (is_hidden(point))
            result += point < 0x80 ? escape("\\x%02x", point) : escape("\\u{%x}", point);
        else
            result += sequence;
        offset += length;
    }
    return result;
}

std::string in_quotes(std::string_view text) {
    constexpr std::size_t max_shown = 80;
    constexpr std::size_t half = 36;
    if (text.size() <= max_shown) return '"' + std::string(text) + '"';
    std::string shown = "\"";
    shown.append(text.substr(0, half)).append("...").append(text.substr(text.size() - half));
    return shown + "\" (" + std::to_string(text.size()) + " bytes)";
}

std::string Diagnostic::text() const {
    std::string result;
    if (!source.file.empty()) {
        result += printable(source.file) + ':';
        if (source.line > 0)
            result += std::to_string(source.line) + ':' + std::to_string(source.column) + ':';
        result += ' ';
    }
    result += severity == Severity::error ? "error: " : "warning: ";
    return result + printable(message);
}

void Findings::error(int line, int column, std::string message) {
    ++errors_;
    if (errors_ > max_errors + 1) return;
    if (errors_ > max_errors)
        message = "more than " + std::to_string(max_errors) + " errors; the rest is not shown";
    out_.push_back({Diagnostic::Severity::error, at(line, column), std::move(message)});
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> known) {
    // A hostile key may be a megabyte long; no known word is.
    constexpr std::size_t max_word = 64;
    if (word.size() > max_word) return std::nullopt;
    std::optional<std::string> best;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (std::string_view candidate : known) {
        const std::size_t found = distance(word, candidate);
        if (found >= best_distance || found >= candidate.size()) continue;
        best_distance = found;
        best = candidate;
    }
    return best;
}

}  // namespace callgate::rules
