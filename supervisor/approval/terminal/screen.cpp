#include "supervisor/approval/terminal/screen.hpp"

#include <charconv>

namespace callgate::approval {

void Screen::feed(std::string_view bytes) {
    for (const char one : bytes) {
        if (one == '\x1b') {
            state_ = State::escape;
            parameters_.clear();
            continue;
        }
        switch (state_) {
            case State::text:
                break;
            case State::escape:
                if (one == '=' || one == '>') keypad_ = one == '=';
                if (one == 'c') {  // full reset
                    changed_ = {};
                    keypad_ = false;
                }
                state_ = one == '[' ? State::sequence : State::text;
                break;
            case State::sequence:
                if (one >= 0x40 && one <= 0x7e) {
                    end_sequence(one);
                    state_ = State::text;
                } else if (parameters_.size() < 64) {
                    parameters_ += one;
                } else {
                    state_ = State::text;
                }
                break;
        }
    }
}

void Screen::end_sequence(char final) {
    if (final == 'p' && parameters_ == "!") changed_ = {};  // soft reset
    if ((final != 'h' && final != 'l') || !parameters_.starts_with('?')) return;
    const char* at = parameters_.data() + 1;
    const char* const end = parameters_.data() + parameters_.size();
    while (at < end) {
        int number = 0;
        const auto [next, error] = std::from_chars(at, end, number);
        if (error != std::errc{}) return;
        for (std::size_t index = 0; index < modes.size(); ++index)
            if (modes[index].number == number) changed_[index] = (final == 'h') != modes[index].usual;
        at = next + 1;
    }
}

bool Screen::alternate() const {
    for (std::size_t index = first_screen; index < modes.size(); ++index)
        if (changed_[index]) return true;
    return false;
}

std::string Screen::calm() {
    std::string text;
    for (std::size_t index = 0; index < first_screen; ++index)
        text += "\x1b[?" + std::to_string(modes[index].number) + (modes[index].usual ? "h" : "l");
    return text + "\x1b>\x1b(B\x0f\x1b[0m";
}

std::string Screen::restore() const {
    std::string text;
    for (std::size_t index = 0; index < first_screen; ++index)
        if (changed_[index])
            text += "\x1b[?" + std::to_string(modes[index].number) + (modes[index].usual ? "l" : "h");
    if (keypad_) text += "\x1b=";
    return text;
}

}  // namespace callgate::approval
