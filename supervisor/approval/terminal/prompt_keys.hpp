// Keys at a prompt, from a terminal in raw mode: one letter and Enter.
//
// Bytes that come in the guard time after the prompt was drawn are discarded. So are a paste and what a
// terminal sends by itself (late replies, focus, mouse). A lone Esc, Ctrl-C and the end of input deny; Ctrl-Z
// suspends. No descriptor and no clock: the caller gives bytes and times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace callgate::approval {

class PromptKeys {
public:
    static constexpr std::int64_t guard_ns = 600'000'000;
    /// The bytes of a key come together, so an Esc that nothing follows in this time is a key.
    static constexpr std::int64_t escape_ns = 50'000'000;

    /// A prompt was drawn.
    void begin(std::int64_t now_ns);
    /// Returns the lines that were typed; an empty one denies. Appends to `echo` what the terminal shows.
    [[nodiscard]] std::vector<std::string> feed(std::string_view bytes, std::int64_t now_ns,
                                                std::string& echo);
    /// Whether an Esc has waited long enough to be a key: it denies.
    [[nodiscard]] bool escaped(std::int64_t now_ns);
    [[nodiscard]] bool waits_for_escape() const { return state_ == State::escape; }
    /// The time at which the Esc that waits is a key.
    [[nodiscard]] std::int64_t escape_due_ns() const { return escape_at_ns_ + escape_ns; }
    /// Whether Ctrl-Z was typed since the last call. It counts in the guard time too, as it answers nothing.
    [[nodiscard]] bool take_suspend() { return std::exchange(suspend_, false); }
    /// Reports that the terminal has sent by itself since the last call, as CSI: a program may wait for them.
    [[nodiscard]] std::string take_reports() { return std::exchange(reports_, {}); }
    /// A key was pressed since the prompt was drawn.
    [[nodiscard]] bool touched() const { return touched_; }

private:
    enum class State { text, escape, sequence, single, string, string_escape, paste };
    void key(char one, std::vector<std::string>& lines, std::string& echo);
    void in_sequence(char one);

    State state_ = State::text;
    std::string line_, sequence_, pasted_end_, reports_;
    std::int64_t guarded_until_ns_ = 0, escape_at_ns_ = 0;
    bool touched_ = false, suspend_ = false;
};

/// Drops what a person still types for a question that is over, so that it does not reach the command. A line
/// that was begun at the prompt is dropped up to its Enter. Other keys are dropped while each comes within
/// `window_ns` of the last one, or of the prompt's end. Reports of the terminal pass.
class LateLine {
public:
    static constexpr std::int64_t window_ns = 1'000'000'000;

    /// The prompt has ended without an answer from here. `to_enter`: a line was begun at it.
    void begin(bool to_enter, std::int64_t now_ns);
    /// Returns what of `typed` is the command's.
    [[nodiscard]] std::string pass(std::string_view typed, std::int64_t now_ns);
    /// Whether a key was dropped since the last call.
    [[nodiscard]] bool take_dropped() { return std::exchange(dropped_, false); }

private:
    PromptKeys keys_;
    bool to_enter_ = false, dropped_ = false;
    std::int64_t until_ns_ = 0;
};

}  // namespace callgate::approval
