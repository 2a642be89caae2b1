#include "supervisor/audit/verbs/table.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

#include "base/escape.hpp"

namespace callgate::audit {

namespace {

constexpr std::size_t rows_that_settle = 512;
/// A longer cell pushes the other cells of its own row to the right, and no other row's.
constexpr std::size_t widest_column = 72;

std::string_view sequence(Colour colour) {
    switch (colour) {
        case Colour::none:
            return "";
        case Colour::red:
            return "\033[31m";
        case Colour::bold_red:
            return "\033[1;31m";
        case Colour::green:
            return "\033[32m";
        case Colour::yellow:
            return "\033[33m";
        case Colour::faint:
            return "\033[2m";
    }
    return "";
}

struct Range {
    char32_t first, last;
};

constexpr Range combining[] = {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F},
                               {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}, {0xFE20, 0xFE2F}};
constexpr Range wide[] = {{0x1100, 0x115F},  {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97C},
                          {0xAC00, 0xD7A3},  {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                          {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF},
                          {0x20000, 0x3FFFD}};

constexpr Range blank[] = {{0x0020, 0x0020}, {0x00A0, 0x00A0}, {0x1680, 0x1680}, {0x2000, 0x200A},
                           {0x202F, 0x202F}, {0x205F, 0x205F}, {0x2800, 0x2800}, {0x3000, 0x3000}};

template <std::size_t Size>
bool within(const Range (&ranges)[Size], char32_t point) {
    return std::any_of(std::begin(ranges), std::end(ranges),
                       [point](const Range& range) { return range.first <= point && point <= range.last; });
}

}  // namespace

std::size_t display_width(std::string_view text) {
    std::size_t width = 0;
    while (!text.empty()) {
        const Character one = decode_utf8(text);
        if (!within(combining, one.point)) width += within(wide, one.point) ? 2 : 1;
        text.remove_prefix(std::max<std::size_t>(one.length, 1));
    }
    return width;
}

std::string delimited(std::string name) {
    bool spaced = false;
    std::string quoted = "\"";
    for (std::string_view rest = name; !rest.empty();) {
        const Character one = decode_utf8(rest);
        const std::size_t length = std::max<std::size_t>(one.length, 1);
        spaced = spaced || (one.length != 0 && within(blank, one.point));
        if (one.point == '"' || one.point == '\\') quoted += '\\';
        quoted += rest.substr(0, length);
        rest.remove_prefix(length);
    }
    return spaced ? quoted + '"' : std::move(name);
}

Table::Table(std::ostream& out, std::vector<std::string> headers, bool colour) : out_(out), colour_(colour) {
    widths_.resize(headers.size());
    Row row;
    for (std::string& header : headers) row.cells.push_back({std::move(header), Colour::faint});
    take(std::move(row));
}

Table::~Table() { flush(); }

void Table::add(std::vector<Cell> row) { take({std::move(row), false}); }

void Table::add_wide(Cell first, Cell rest) { take({{std::move(first), std::move(rest)}, true}); }

void Table::take(Row row) {
    for (Cell& cell : row.cells) cell.text = terminal_safe(cell.text);
    if (settled_) return write(row);
    const std::size_t count = row.wide ? 1 : std::min(row.cells.size(), widths_.size());
    for (std::size_t index = 0; index < count; ++index) {
        const std::size_t width = std::min(display_width(row.cells[index].text), widest_column);
        widths_[index] = std::max(widths_[index], width);
    }
    held_.push_back(std::move(row));
    if (held_.size() == rows_that_settle) flush();
}

void Table::flush() {
    settled_ = true;
    for (const Row& row : std::exchange(held_, {})) write(row);
    out_.flush();
}

void Table::write(const Row& row) {
    for (std::size_t index = 0; index < row.cells.size(); ++index) {
        const Cell& cell = row.cells[index];
        const bool coloured = colour_ && cell.colour != Colour::none;
        if (coloured) out_ << sequence(cell.colour);
        out_ << cell.text;
        if (coloured) out_ << "\033[0m";
        if (index + 1 == row.cells.size()) break;
        const std::size_t width = display_width(cell.text);
        const std::size_t column = index < widths_.size() ? widths_[index] : 0;
        out_ << std::string((width < column ? column - width : 0) + 2, ' ');
    }
    out_ << '\n';
}

}  // namespace callgate::audit
