#include "supervisor/approval/terminal/plain_text.hpp"

#include "base/reader_letters.hpp"

namespace callgate::approval {

namespace {

constexpr std::size_t max_parameters = 64;
constexpr unsigned char escape_byte = 0x1b, cancel_byte = 0x18, substitute_byte = 0x1a, bell_byte = 0x07;

bool is_line_control(unsigned char byte) {
    return byte == '\n' || byte == '\r' || byte == '\t' || byte == '\b' || byte == bell_byte;
}

}  // namespace

bool PlainText::locale_is_utf8() { return ReaderLetters::of_environment().utf8(); }

/// ESC with the byte's last five bits and 0x40 is the same control in seven bits.
void PlainText::c1(unsigned char byte) {
    parameters_.clear();
    fits_ = true;
    if (byte == 0x9b)
        state_ = State::sequence;
    else if (byte == 0x90 || byte == 0x98 || byte == 0x9d || byte == 0x9e || byte == 0x9f)
        state_ = State::string;
    else
        state_ = State::text;
}

/// U+0080 to U+009F are the C1 controls: 0xC2 and one byte. A raw byte of that range is one only where it
/// continues no character.
void PlainText::ground(unsigned char byte, std::string& out) {
    if (byte == escape_byte) {
        state_ = State::escape;
        continuation_ = 0;
    } else if (byte < 0x20 || byte == 0x7f) {
        continuation_ = 0;
        if (is_line_control(byte)) out += static_cast<char>(byte);
    } else if (byte >= 0x80 && byte < 0xc0) {
        if (continuation_ > 0 && (utf8_ || byte >= 0xa0)) {
            --continuation_;
            out += static_cast<char>(byte);
        } else if (byte < 0xa0) {
            c1(byte);
        } else {
            out += static_cast<char>(byte);
        }
    } else if (byte == 0xc2 && utf8_) {
        state_ = State::after_c2;
    } else {
        continuation_ = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
        out += static_cast<char>(byte);
    }
}

std::string PlainText::filter(std::string_view bytes) {
    std::string out;
    for (const char one : bytes) {
        const auto byte = static_cast<unsigned char>(one);
        if (state_ == State::after_c2) {
            state_ = State::text;
            if (byte >= 0x80 && byte < 0xa0) {
                c1(byte);
                continue;
            }
            out += '\xc2';
            continuation_ = 1;
        }
        if (state_ != State::text && (byte == cancel_byte || byte == substitute_byte)) {
            state_ = State::text;
            continue;
        }
        switch (state_) {
            case State::after_c2:
            case State::text:
                ground(byte, out);
                break;
            case State::escape:
                if (byte == escape_byte || byte < 0x20) break;
                if (byte >= 0x20 && byte < 0x30) {
                    state_ = State::intermediate;
                } else if (byte == 'k') {  // a title, in screen and tmux
                    state_ = State::string;
                } else if (byte >= 0x40 && byte < 0x60) {
                    c1(static_cast<unsigned char>(byte + 0x40));
                } else {
                    state_ = State::text;
                }
                break;
            case State::intermediate:
                if (byte == escape_byte)
                    state_ = State::escape;
                else if (byte >= 0x30)
                    state_ = State::text;
                break;
            case State::sequence:
                if (byte == escape_byte) {
                    state_ = State::escape;
                } else if (byte >= 0x40 && byte <= 0x7e) {
                    if (byte == 'm' && fits_) out += "\x1b[" + parameters_ + 'm';
                    state_ = State::text;
                } else if (((byte >= '0' && byte <= '9') || byte == ';' || byte == ':') &&
                           parameters_.size() < max_parameters) {
                    parameters_ += one;
                } else {
                    fits_ = false;
                }
                break;
            case State::string:
                if (byte == bell_byte || byte == 0x9c) state_ = State::text;
                if (byte == escape_byte) state_ = State::string_escape;
                break;
            case State::string_escape:
                state_ = byte == '\\'          ? State::text
                         : byte == escape_byte ? State::string_escape
                                               : State::string;
                break;
        }
    }
    return out;
}

}  // namespace callgate::approval
