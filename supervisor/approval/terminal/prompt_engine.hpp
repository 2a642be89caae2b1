// A question on a terminal, from its frame to its answer: `--ask tty` and `callgate approve` both use this.
//
// The target chooses when a question comes and what stands in it; a person may be typing something else at
// that moment. So this class alone decides which bytes answer. Bytes count only after the frame was written
// and `guard_ns` has passed; a paste, a reply of the terminal and an unknown word never answer. A frame that
// hides something takes no allowing letter before the details were drawn, and one that is longer than the
// screen takes none. The question is a copy, so the
// answer carries the key of what was shown.
//
// No descriptor and no clock: the caller writes text, reads bytes and gives times. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "supervisor/approval/questions/question_view.hpp"
#include "supervisor/approval/terminal/prompt.hpp"
#include "supervisor/approval/terminal/prompt_keys.hpp"

namespace callgate::approval {

/// The next thing that the caller does, after it has written `text`.
struct PromptStep {
    enum class Kind : std::uint8_t {
        wait,    // nothing else
        opened,  // the guard time is over; a caller with Input::lines has discarded half a line before `text`
        answer,  // sends `action` and `scope` for `question()`, then calls `close`
        redraw,  // draws the question again
        suspend  // Ctrl-Z (Input::keys)
    };
    Kind kind = Kind::wait;
    rules::Action action = rules::Action::deny;
    Scope scope = Scope::once;
    Width width{};       // of scope `tree`
    bool began = false;  // the person has begun to answer, so the countdown rests
    std::string text;
};

class PromptEngine {
public:
    enum class Input : std::uint8_t {
        keys,   // a terminal in raw mode
        lines,  // a terminal that gives whole lines
        stream  // no terminal: each line counts as soon as the frame was written
    };
    /// `config` is the directory for proposed rules ("" if there is none).
    PromptEngine(Input input, std::string config) : input_(input), config_(std::move(config)) {}

    /// Takes over a question. Nothing counts until it is drawn.
    void open(QuestionView question);
    /// The question was answered or withdrawn.
    void close();
    /// The question that is shown, or null.
    [[nodiscard]] const QuestionView* question() const { return question_ ? &*question_ : nullptr; }
    /// A key was pressed at the question that is shown.
    [[nodiscard]] bool begun() const { return began_; }
    [[nodiscard]] bool shows(std::string_view run, std::uint64_t id) const;
    void set_count(std::uint64_t count) { question_->count = count; }

    /// The frame of the question; `look.details` is set here.
    [[nodiscard]] std::string draw(Look look);
    /// The frame was written: the guard time begins.
    void drawn(std::int64_t now_ns);

    [[nodiscard]] PromptStep feed(std::string_view bytes, std::int64_t now_ns);
    /// The end of input denies the question that is shown.
    [[nodiscard]] PromptStep end_of_input() const;
    /// Does what is due: ends the guard time, or takes a lone Esc as a key.
    [[nodiscard]] PromptStep tick(std::int64_t now_ns);
    /// The time at which `tick` has something to do.
    [[nodiscard]] std::optional<std::int64_t> due_ns() const;

private:
    [[nodiscard]] PromptStep feed_keys(std::string_view bytes, std::int64_t now_ns);
    [[nodiscard]] PromptStep feed_lines(std::string_view bytes, std::int64_t now_ns);
    [[nodiscard]] PromptStep on_line(std::string_view line);
    /// `u`: the next directory above; behind the widest the nearest comes again.
    void widen();
    [[nodiscard]] PromptStep reply(const std::string& text);
    [[nodiscard]] std::string with_newlines(std::string_view text) const;
    [[nodiscard]] bool begin_answer();

    Input input_;
    std::string config_;
    std::optional<QuestionView> question_;
    Width width_;  // that `t` has now, as it was drawn
    PromptKeys keys_;
    TypedLines lines_;
    std::string typed_;  // Input::stream: the beginning of a line
    std::int64_t guarded_until_ns_ = 0;
    bool drawn_ = false, began_ = false, mark_due_ = false, plain_ = false;
    bool detailed_ = false, details_wanted_ = false;
};

}  // namespace callgate::approval
