// A filter of what the command writes to the terminal (--plain-output): text, line control and colours pass.
//
// The target chooses every byte. Printable characters pass, line control (newline, return,
// tabulator, backspace, bell), and CSI sequences that end in `m` and hold digits, ';' and ':' alone. Every
// other escape, string and control character is dropped, in seven bits and in eight (C1, as UTF-8 and raw).
#pragma once

#include <string>
#include <string_view>

namespace callgate::approval {

class PlainText {
public:
    /// Returns what passes of `bytes`; an unfinished sequence waits for the next call.
    [[nodiscard]] std::string filter(std::string_view bytes);

private:
    enum class State { text, escape, intermediate, sequence, string, string_escape, after_c2 };
    void ground(unsigned char byte, std::string& out);
    void c1(unsigned char byte);

    State state_ = State::text;
    std::string parameters_;
    bool fits_ = true;      // the sequence is one that may pass
    int continuation_ = 0;  // bytes of a character that still follow
};

}  // namespace callgate::approval
