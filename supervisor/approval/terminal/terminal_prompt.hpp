// Prompts of `--ask tty`: where and when a question is drawn on the person's terminal, and what is put back.
//
// A prompt waits until no key was pressed for 300 ms, because the person may be typing for the command. It is
// drawn on the alternate screen, and the screen is afterwards what it was. A terminal with one screen, or
// one whose alternate screen the command uses, is erased, and the command is told to draw again. The command
// cannot write meanwhile (Relay::hold). The relaying thread only.
//
// The target chooses what was sent to the terminal before: an unfinished string, margins, colours. So the
// terminal is reset first. After drawing it is asked where its cursor is. Keys count only if it is where the
// frame ends, and then at a random place. Otherwise the question is not asked here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/approval/terminal/job_control.hpp"
#include "supervisor/approval/terminal/prompt_engine.hpp"
#include "supervisor/approval/terminal/prompt_keys.hpp"
#include "supervisor/approval/terminal/relay.hpp"

namespace callgate::approval {

class TerminalPrompt {
public:
    /// `config` is the directory for proposed rules. All references outlive this.
    TerminalPrompt(PersonTerminal& person, CommandTerminal& command, Relay& relay, const JobControl& jobs,
                   QuestionQueue& questions, std::string run, std::string config);

    /// A prompt is on the screen, and what is typed is for it.
    [[nodiscard]] bool open() const { return open_; }
    /// Looks for questions: opens a prompt, goes on with the next question, or ends the prompt.
    void update();
    /// Takes what was typed at the prompt. True: Ctrl-Z.
    [[nodiscard]] bool feed(std::string_view typed);
    /// Returns what of `typed` is the command's: a line for a question that is over is not.
    [[nodiscard]] std::string of_command(std::string_view typed);
    /// A key was pressed for the command.
    void note_key(std::int64_t now_ns) { last_key_ns_ = now_ns; }
    /// The person's terminal has another size.
    void resized();
    /// Does what is due; `timeout_ms` says when, `most` at the latest.
    /// True: Ctrl-Z was typed while the prompt was drawn.
    [[nodiscard]] bool tick();
    [[nodiscard]] int timeout_ms(int most) const;
    /// Whether the terminal says where its cursor is. Before the command begins: what is typed meanwhile is
    /// for it.
    [[nodiscard]] bool answers();
    /// The terminal has not shown a question, so it is asked no more.
    [[nodiscard]] bool unseen() const { return unseen_; }
    /// Gives the screen back. Questions that are open come again with `update`.
    void end();

private:
    void begin();
    void draw();
    [[nodiscard]] bool draw_frame();
    [[nodiscard]] bool seen_at(const Position& end);
    [[nodiscard]] std::vector<Position> reports(std::string_view questions, std::size_t count,
                                                std::string& typed);
    void give_up();
    void over();
    void tell_late(std::string_view what);
    [[nodiscard]] int moved_up() const;
    void show(std::string_view text);
    void erase();
    void announce_in_background(std::uint64_t question);
    [[nodiscard]] std::optional<Position> ask_position();
    bool follow(const PromptStep& step);
    void answer(const PromptStep& step);

    PersonTerminal& person_;
    CommandTerminal& command_;
    Relay& relay_;
    const JobControl& jobs_;
    QuestionQueue& questions_;
    std::string run_;
    PromptEngine engine_;
    LateLine late_;
    bool late_is_told_ = false;
    bool open_ = false;
    bool waiting_ = false;  // a question waits until it can be drawn
    std::int64_t last_key_ns_ = 0;
    std::uint64_t announced_ = 0;        // the question that was announced in the background
    bool one_screen_ = false;            // a printer, or a terminal without an alternate screen
    bool on_alternate_ = false;          // the command uses the alternate screen
    std::optional<Position> cursor_at_;  // where the cursor was, if the terminal with one screen says so
    bool unseen_ = false, suspend_typed_ = false;
    int lines_ = 0;  // how far it has moved down since
};

}  // namespace callgate::approval
