#include "supervisor/approval/terminal/screen.hpp"

#include <algorithm>
#include <charconv>

#include "supervisor/approval/terminal/plain_text.hpp"

namespace callgate::approval {

namespace {

/// DSR 6, also in its private form.
bool asks_position(std::string_view parameters) {
    if (parameters.starts_with('?')) parameters.remove_prefix(1);
    int number = 0;
    return std::from_chars(parameters.data(), parameters.data() + parameters.size(), number).ec ==
               std::errc{} &&
           number == 6;
}

}  // namespace

void Screen::feed(std::string_view bytes) {
    for (const char one : bytes) {
        // CSI in eight bits: raw, and as UTF-8. The same byte ends other characters of UTF-8.
        const bool introduces = one == '\x9b' && (last_ == '\xc2' || !PlainText::locale_is_utf8());
        last_ = one;
        if (one == '\x1b' || introduces) {
            state_ = introduces ? State::sequence : State::escape;
            parameters_.clear();
            character_.clear();
            continue;
        }
        switch (state_) {
            case State::text:
                note_character(one);
                break;
            case State::escape:
                if (one >= 0 && one < 0x20 && one != '\x18' && one != '\x1a')
                    break;  // controls act within it
                if (one == '=' || one == '>') keypad_ = one == '=';
                if (one == 'c') {  // full reset
                    changed_ = {};
                    keypad_ = false;
                    margins_.clear();
                }
                state_ = one == '[' ? State::sequence : State::text;
                break;
            case State::sequence:
                if (one >= 0x40 && one <= 0x7e) {
                    end_sequence(one);
                    state_ = State::text;
                } else if (one == '\x18' || one == '\x1a') {  // they cancel it
                    state_ = State::text;
                } else if (one >= 0x20 && parameters_.size() <= max_parameters) {  // controls act within it
                    parameters_ += one;
                }
                break;
        }
    }
}

void Screen::note_character(char one) {
    const auto bits = static_cast<unsigned char>(one);
    const auto length_of = [](unsigned char first) -> std::size_t {
        return first >= 0xf5 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
    };
    if ((bits & 0xc0) != 0x80) {
        character_.clear();
    } else if (character_.empty()) {
        return;
    }
    character_ += one;
    if (character_.size() == length_of(static_cast<unsigned char>(character_.front()))) character_.clear();
}

void Screen::end_sequence(char final) {
    if (final == 'p' && parameters_ == "!") {  // soft reset
        changed_ = {};
        margins_.clear();
    }
    if (final == 'r' && parameters_.find_first_not_of("0123456789;") == std::string::npos)
        margins_ = parameters_;
    if (final == 'n' && asks_position(parameters_)) ++queries_;
    if (parameters_.size() > max_parameters) {
        covered_ = covered_ || (final == 'h' && parameters_.starts_with('?'));  // it may hold any mode
        return;
    }
    if ((final != 'h' && final != 'l') || !parameters_.starts_with('?')) return;
    const char* at = parameters_.data() + 1;
    const char* const end = parameters_.data() + parameters_.size();
    while (at < end) {
        int number = 0;
        std::from_chars(at, end, number);  // 0 where there is none
        covered_ = covered_ || (number == tektronix && final == 'h');
        for (std::size_t index = 0; index < modes.size(); ++index)
            if (modes[index].number == number) changed_[index] = (final == 'h') != modes[index].usual;
        at = std::find(at, end, ';') + 1;
    }
}

bool Screen::alternate() const {
    for (std::size_t index = first_screen; index < modes.size(); ++index)
        if (changed_[index]) return true;
    return false;
}

/// CAN and ST end a string or a sequence, wherever a parser is. Tektronix mode ends by ESC ETX, VT52 mode by
/// ESC <; elsewhere both do nothing.
std::string Screen::end_strings() { return "\x18\x1b\\\x1b\x03\x18\x1b\\\x1b<"; }

/// The single resets follow the soft reset (DECSTR), as not every terminal has it. All of them are of
/// ECMA-48, DEC or xterm; a terminal ignores those that it does not know.
std::string Screen::reset(bool console) {
    std::string text = "\x1b[!p\x1b F";                 // soft reset; replies in seven bits
    if (PlainText::locale_is_utf8()) text += "\x1b%G";  // what reads Latin-1 reads UTF-8 again
    for (std::size_t index = 0; index < first_screen; ++index)
        text += "\x1b[?" + std::to_string(modes[index].number) + (modes[index].usual ? "h" : "l");
    // Reverse video, origin, margins left and right, national sets, reverse wrap, 132 columns, images that
    // scroll, synchronised update; insert, newline, keyboard lock; local echo.
    for (const int off : {5, 6, 69, 42, 45, 40, 80, 2026}) text += "\x1b[?" + std::to_string(off) + 'l';
    text += "\x1b[?7h\x1b[4l\x1b[20l\x1b[2l\x1b[12h";
    text += "\x1b[r\x1b>\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[0m\x1b[0\"q";
    if (console) return text + "\x1b]R\x1b[11m\x1b[10m";
    text += "\x1b[>4;0m\x1b[=0;1u";           // other encodings of keys
    text += "\x1b]8;;\x1b\\\x1b[4i\x1b[0 k";  // a link, output to a printer, the direction of writing
    for (const char* const colours : {"104", "105", "110", "111", "112", "117", "119"})
        text += std::string("\x1b]") + colours + "\x1b\\";
    return text;
}

std::string Screen::restore() const {
    std::string text;
    for (std::size_t index = 0; index < first_screen; ++index)
        if (changed_[index])
            text += "\x1b[?" + std::to_string(modes[index].number) + (modes[index].usual ? "l" : "h");
    if (keypad_) text += "\x1b=";
    if (!margins_.empty())
        text +=
            "\x1b"
            "7\x1b[" +
            margins_ +
            "r\x1b"
            "8";  // setting them moves the cursor
    if (state_ == State::escape) text += '\x1b';
    if (state_ == State::sequence && parameters_.size() <= max_parameters) text += "\x1b[" + parameters_;
    return PlainText::locale_is_utf8() ? text + character_ : text;
}

}  // namespace callgate::approval
