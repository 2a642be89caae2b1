// Rows in aligned columns on a terminal.
//
// Columns are as wide as the first rows need. Later rows are written as they come, so memory is bounded. The
// table makes every cell safe for a terminal, because an attacker may choose the bytes of cells.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::audit {

enum class Colour : unsigned char { none, red, bold_red, green, yellow, faint };

struct Cell {
    std::string text;
    Colour colour = Colour::none;
};

class Table {
public:
    /// `colour` false: no escape sequence is ever written.
    Table(std::ostream& out, std::vector<std::string> headers, bool colour);
    ~Table();
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    void add(std::vector<Cell> row);
    /// Adds a row whose second cell stands for all that follow. It does not widen columns.
    void add_wide(Cell first, Cell rest);
    /// Writes the rows that were held back. From then on every row is written at once.
    void flush();

private:
    struct Row {
        std::vector<Cell> cells;
        bool wide = false;
    };
    void take(Row row);
    void write(const Row& row);

    std::ostream& out_;
    bool colour_;
    bool settled_ = false;
    std::vector<std::size_t> widths_;
    std::vector<Row> held_;
};

/// The number of columns that a terminal uses for text that is safe for it.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// In double quotes if it holds a space, or a letter that looks like one. A program chooses the name, and its
/// words could pass for the cells beside it.
[[nodiscard]] std::string delimited(std::string name);

}  // namespace callgate::audit
