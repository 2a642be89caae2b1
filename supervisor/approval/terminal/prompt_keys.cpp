#include "supervisor/approval/terminal/prompt_keys.hpp"

namespace callgate::approval {

namespace {

constexpr std::string_view end_of_paste = "\x1b[201~";
constexpr char escape = '\x1b', suspend = 26;

}  // namespace

void PromptKeys::begin(std::int64_t now_ns) {
    guarded_until_ns_ = now_ns + guard_ns;
    line_.clear();
    reports_.clear();
    touched_ = false;
    if (state_ != State::paste) state_ = State::text;
}

void PromptKeys::key(char one, std::vector<std::string>& lines, std::string& echo) {
    constexpr char interrupt = 3, end_of_input = 4, backspace = 8, erase_line = 21, rub_out = 127;
    constexpr std::size_t longest = 64;
    touched_ = true;
    if (one == '\r' || one == '\n') {
        echo += "\r\n";
        lines.push_back(std::exchange(line_, {}));
    } else if (one == interrupt || one == end_of_input) {
        echo += "\r\n";
        line_.clear();
        lines.emplace_back();
    } else if (one == backspace || one == rub_out) {
        if (line_.empty()) return;
        line_.pop_back();
        echo += "\b \b";
    } else if (one == erase_line) {
        for (; !line_.empty(); line_.pop_back()) echo += "\b \b";
    } else if (one >= 0x20 && one < 0x7f && line_.size() < longest) {
        line_ += one;
        echo += one;
    } else {
        line_ += '?';  // it is no letter that answers
        echo += '?';
    }
}

void PromptKeys::in_sequence(char one) {
    if (one < 0x40 || one > 0x7e) {
        constexpr std::size_t longest = 64;
        if (sequence_.size() < longest) sequence_ += one;
        return;
    }
    const bool paste = one == '~' && sequence_ == "200";
    constexpr std::size_t most = 4096;
    if (one != '~' && reports_.size() < most) reports_ += "\x1b[" + sequence_ + one;
    state_ = paste ? State::paste : State::text;
    pasted_end_.clear();
}

std::vector<std::string> PromptKeys::feed(std::string_view bytes, std::int64_t now_ns, std::string& echo) {
    std::vector<std::string> lines;
    for (const char one : bytes) {
        switch (state_) {
            case State::text:
                if (one == escape) {
                    state_ = State::escape;
                    escape_at_ns_ = now_ns;
                } else if (one == suspend) {
                    suspend_ = true;
                } else if (now_ns >= guarded_until_ns_) {
                    key(one, lines, echo);
                }
                break;
            case State::escape:
                sequence_.clear();
                state_ = one == '['   ? State::sequence
                         : one == 'O' ? State::single
                         : one == ']' || one == 'P' || one == '_' || one == '^' || one == 'X' ? State::string
                         : one == escape                                                      ? State::escape
                                                                                              : State::text;
                break;
            case State::sequence:
                in_sequence(one);
                break;
            case State::single:
                state_ = State::text;
                break;
            case State::string:
                if (one == '\a') state_ = State::text;
                if (one == escape) state_ = State::string_escape;
                break;
            case State::string_escape:
                state_ = State::text;
                break;
            case State::paste:
                pasted_end_ += one;
                if (pasted_end_.size() > end_of_paste.size()) pasted_end_.erase(0, 1);
                if (pasted_end_ == end_of_paste) state_ = State::text;
                break;
        }
    }
    return lines;
}

bool PromptKeys::escaped(std::int64_t now_ns) {
    if (state_ != State::escape || now_ns - escape_at_ns_ < escape_ns) return false;
    state_ = State::text;
    line_.clear();
    return escape_at_ns_ >= guarded_until_ns_;
}

void LateLine::begin(bool to_enter, std::int64_t now_ns) {
    keys_.begin(now_ns - PromptKeys::guard_ns);
    to_enter_ = to_enter;
    dropped_ = false;
    until_ns_ = now_ns + window_ns;
}

std::string LateLine::pass(std::string_view typed, std::int64_t now_ns) {
    std::string passed, echo;
    while (!typed.empty() && (to_enter_ || now_ns < until_ns_)) {
        const bool ended = !keys_.feed(typed.substr(0, 1), now_ns, echo).empty();
        typed.remove_prefix(1);
        passed += keys_.take_reports();
        if (keys_.take_suspend()) passed += suspend;
        if (keys_.touched() || ended) dropped_ = true;
        if (dropped_) until_ns_ = ended ? now_ns : now_ns + window_ns;
        to_enter_ = to_enter_ && !ended;
    }
    return passed.append(typed);
}

}  // namespace callgate::approval
