// The person's terminal while the command has one of its own (--ask tty, or auto where there is a terminal):
// bytes relayed both ways, and prompts between them.
//
// The command never holds the person's terminal: it can neither read what is typed at a prompt nor write over
// it. For a prompt its output waits (1 MiB here, then in the pty), the prompt is drawn on the alternate
// screen, and afterwards the screen is what it was. What was typed before belongs to the command; a prompt
// waits for 300 ms without a key and discards what comes in the 600 ms after it was drawn.
//
// Keys are the command's from the start where it is alone in the foreground. In a pipe, or in the background,
// they may be another's: then none is read but at a prompt, until the command wants the terminal (EventLoop
// sees it stopped by SIGTTIN or SIGTTOU).
//
// One thread of its own relays, so that a terminal that does not take output holds up nothing else.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/terminal.hpp"
#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/approval/terminal/person_terminal.hpp"
#include "supervisor/approval/terminal/prompt_keys.hpp"
#include "supervisor/approval/terminal/screen.hpp"
#include "supervisor/approval/questions/question_view.hpp"

namespace callgate::approval {

class Terminal {
public:
    /// The controlling terminal and a new pty like it. Throws std::runtime_error where there is none.
    Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    ~Terminal();

    /// Where somebody sits who would see a prompt: a standard descriptor is the controlling terminal. Null:
    /// nowhere, or it cannot be had.
    [[nodiscard]] static std::shared_ptr<Terminal> at_hand();

    /// What guardian and agent are given.
    [[nodiscard]] agent::RunTerminal for_run() const;
    /// The person's: "/dev/pts/N", "/dev/tty1".
    [[nodiscard]] std::string outer_name() const { return person_.name(); }
    /// Whether a descriptor is the person's terminal: who holds it can answer, and draw over a prompt.
    [[nodiscard]] bool is_person(int fd) const { return person_.is(fd); }
    /// N of the command's /dev/pts/N.
    [[nodiscard]] int number() const { return number_; }

    struct Environment {
        QuestionQueue* broker = nullptr;
        std::string run, config;
        std::function<void()> suspend;  // Ctrl-Z at a prompt. Any thread
        std::function<void()> lost;     // the person's terminal is gone. Any thread
        /// callgate is in the foreground again, without having been stopped (`fg` of a job that runs).
        std::function<void()> regained;  // any thread
    };
    /// Main thread, with its signals blocked: relaying begins.
    void start(Environment environment);
    /// Any thread: questions came or went.
    void wake();

    // Main thread; what it says is done when the call returns.
    /// The command wants the keys. False: callgate is in the background, where nobody may have them.
    [[nodiscard]] bool take();
    /// The person's terminal is given back, around a stop of callgate.
    void suspend();
    /// Whether the command has the keys (again). Whoever had the terminal meanwhile may have changed it: its
    /// modes are set anew, and a prompt is drawn anew.
    [[nodiscard]] bool resume(bool wanted);
    /// What the command wrote last is shown, and the terminal given back.
    void stop();

private:
    /// keys: they are the command's; watch: only its output is relayed.
    enum class Wish : std::uint8_t { keys, watch, suspend, stop };

    void run();
    void wait();
    void take_keys();
    void take_output();
    void give_input();
    void on_winch();
    void pass_size(int shrink = 0);
    void pass_modes();
    void follow_wish();
    void look_for_foreground();
    void wish(Wish what);
    void lose_person();
    void show(std::string_view bytes);

    // Prompts: terminal_prompt.cpp.
    void look_for_questions();
    void tell_in_background(std::uint64_t question);
    struct Position {
        int row = 0, column = 0;
    };
    [[nodiscard]] std::optional<Position> ask_position();
    void erase_prompt();
    void show_prompt(std::string_view text);
    void begin_prompt();
    void draw(bool details);
    void ask_for_key(std::string_view before = {});
    void end_prompt();
    void on_keys(std::string_view typed);
    void on_line(const std::string& line);
    void answer(rules::Action action, Scope scope);

    PersonTerminal person_;
    UniqueFd master_, slave_, wake_, winch_;
    int number_ = -1;
    termios passed_{};  // the modes that the command's terminal was given
    std::thread thread_;
    Environment environment_;
    std::atomic<bool> had_keys_{false};  // they were the command's

    std::mutex mutex_;
    std::condition_variable followed_;
    Wish wish_ = Wish::watch;           // guarded by mutex_
    Wish followed_wish_ = Wish::watch;  // guarded by mutex_
    bool anew_ = false;                 // guarded by mutex_: follow it although it is the same

    // The relaying thread's own.
    Screen screen_;
    PromptKeys keys_;
    std::string input_;        // typed, for the command
    std::string held_;         // written by the command, while a prompt is shown
    bool ended_ = false;       // the person's terminal is gone
    bool suspended_ = false;   // nothing is relayed
    bool keys_taken_ = false;  // what is typed is the command's
    bool regained_ = false;    // that was said
    std::int64_t last_key_ns_ = 0;
    bool looking_ = false;          // a question waits until it can be drawn
    std::uint64_t told_ = 0;        // the question that was told of in the background
    std::int64_t confined_at_ns_ = 0;  // when keys count at this prompt; 0: they do
    bool prompting_ = false, detailed_ = false, on_alternate_ = false, plain_ = false;
    std::optional<Position> prompt_at_;  // where the cursor was, on a terminal with one screen
    int prompt_lines_ = 0;               // how far it has moved down since
    std::optional<QuestionView> shown_;
};

}  // namespace callgate::approval
