// A filter of what the command writes to the terminal (--plain-output): text, line control and colours pass.
//
// The target chooses every byte. Printable characters pass, line control (newline, return,
// tabulator, backspace, bell), and CSI sequences that end in `m` and hold digits, ';' and ':' alone. Every
// other escape, string and control character is dropped, in seven bits and in eight (C1, as UTF-8 and raw). A
// terminal that does not read UTF-8 takes each byte from 0x80 to 0x9F as a control, also within a character.
#pragma once

#include <string>
#include <string_view>

namespace callgate::approval {

class PlainText {
public:
    /// `utf8`: the terminal reads UTF-8.
    explicit PlainText(bool utf8 = locale_is_utf8()) : utf8_(utf8) {}
    /// Whether the user's locale says UTF-8 (LC_ALL, LC_CTYPE, LANG).
    [[nodiscard]] static bool locale_is_utf8();

    /// Returns what passes of `bytes`; an unfinished sequence waits for the next call.
    [[nodiscard]] std::string filter(std::string_view bytes);

private:
    enum class State { text, escape, intermediate, sequence, string, string_escape, after_c2 };
    void ground(unsigned char byte, std::string& out);
    void c1(unsigned char byte);

    const bool utf8_;
    State state_ = State::text;
    std::string parameters_;
    bool fits_ = true;      // the sequence is one that may pass
    int continuation_ = 0;  // bytes of a character that still follow
};

}  // namespace callgate::approval
