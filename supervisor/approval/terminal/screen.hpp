// The state of a terminal that a prompt must put back: the alternate screen, margins, and the modes of keys
// and cursor. And the texts that make a terminal show a prompt, whatever the target has sent before.
//
// It reads every byte that goes to the person's terminal. The target chooses all of them; they only set flags
// of a fixed list, digits of margins, and a count. A terminal may understand them in another way. So nothing
// here is proof that a prompt is seen: the terminal is asked (TerminalPrompt).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace callgate::approval {

class Screen {
public:
    void feed(std::string_view bytes);

    [[nodiscard]] bool alternate() const;
    /// Ends whatever the target has left unfinished: a string, a sequence, a character, another emulation.
    [[nodiscard]] static std::string end_strings();
    /// Resets what would hide or disturb a prompt on the screen in use: modes, margins, attributes, character
    /// sets, colours. `console`: the Linux console, which knows other strings.
    [[nodiscard]] static std::string reset(bool console);
    /// How often the target has asked for the cursor's position.
    [[nodiscard]] std::uint64_t position_queries() const { return queries_; }
    /// Whether a program asked for xterm's Tektronix window. It stays, may lie over this one, and no sequence
    /// takes it away.
    [[nodiscard]] bool covered() const { return covered_; }
    /// Sets the modes that the program had chosen. Then comes the beginning of what the program has not ended
    /// yet: a sequence, or a character of UTF-8. Else the rest of it would be shown as text.
    [[nodiscard]] std::string restore() const;

private:
    enum class State { text, escape, sequence };
    struct Mode {
        int number;
        bool usual;  // how a terminal begins
    };
    // DEC private modes: cursor keys, cursor, mouse (click, drag, motion, focus, UTF-8, SGR, urxvt), screens,
    // paste.
    static constexpr std::array<Mode, 14> modes{{{1, false},
                                                 {25, true},
                                                 {9, false},
                                                 {1000, false},
                                                 {1002, false},
                                                 {1003, false},
                                                 {1004, false},
                                                 {1005, false},
                                                 {1006, false},
                                                 {1015, false},
                                                 {2004, false},
                                                 {47, false},
                                                 {1047, false},
                                                 {1049, false}}};
    static constexpr std::size_t first_screen = 11;
    static constexpr std::size_t max_parameters = 64;  // characters
    static constexpr int tektronix = 38;

    void end_sequence(char final);
    void note_character(char one);

    State state_ = State::text;
    std::string parameters_;
    std::string margins_;    // digits and ';'
    std::string character_;  // the first bytes of one of UTF-8
    std::uint64_t queries_ = 0;
    std::array<bool, modes.size()> changed_{};  // not as usual
    bool keypad_ = false, covered_ = false;
    char last_ = 0;
};

}  // namespace callgate::approval
