// A place on a terminal's screen, and the terminal's report of its cursor (DSR 6, CPR).
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

namespace callgate::approval {

struct Position {
    int row = 0, column = 0;  // from 1
    bool operator==(const Position&) const = default;
};

/// Moves the cursor there.
[[nodiscard]] inline std::string move_to(const Position& place) {
    return "\x1b[" + std::to_string(place.row) + ';' + std::to_string(place.column) + 'H';
}

/// Takes the first report "ESC [ ROW ; COLUMN R" out of `typed`; nothing if there is none.
[[nodiscard]] inline std::optional<Position> take_position(std::string& typed) {
    for (std::size_t at = typed.find("\x1b["); at != std::string::npos; at = typed.find("\x1b[", at + 1)) {
        const char* const end = typed.data() + typed.size();
        Position found;
        const auto [semicolon, row_error] = std::from_chars(typed.data() + at + 2, end, found.row);
        if (row_error != std::errc{} || semicolon == end || *semicolon != ';') continue;
        const auto [final, column_error] = std::from_chars(semicolon + 1, end, found.column);
        if (column_error != std::errc{} || final == end || *final != 'R') continue;
        typed.erase(at, static_cast<std::size_t>(final + 1 - (typed.data() + at)));
        return found;
    }
    return std::nullopt;
}

}  // namespace callgate::approval
