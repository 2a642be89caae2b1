// The person's terminal while the command has one of its own (--ask tty): bytes relayed both ways, and
// prompts between them.
//
// The command never holds the person's terminal: it can neither read what is typed at a prompt nor write over
// it. For a prompt its output waits (1 MiB here, then in the pty), the prompt is drawn on the alternate
// screen, and afterwards the screen is what it was. What was typed before belongs to the command; a prompt
// waits for 300 ms without a key and discards what comes in the 600 ms after it was drawn.
//
// One thread of its own relays, so that a terminal that does not take output holds up nothing else.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/terminal.hpp"
#include "supervisor/approval/broker.hpp"
#include "supervisor/approval/prompt_keys.hpp"
#include "supervisor/approval/screen.hpp"
#include "supervisor/approval/shown.hpp"

namespace callgate::approval {

class Terminal {
public:
    /// The controlling terminal and a new pty like it. Throws std::runtime_error where there is none.
    Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    ~Terminal();

    /// What guardian and agent are given.
    [[nodiscard]] agent::RunTerminal for_run() const;
    /// The person's: "/dev/pts/N", "/dev/tty1".
    [[nodiscard]] std::string outer_name() const;
    /// N of the command's /dev/pts/N.
    [[nodiscard]] int number() const { return number_; }

    /// Main thread, with its signals blocked: raw mode, and relaying begins.
    void start(Broker& broker, std::string run, std::string config);
    /// Any thread: questions came or went.
    void wake();
    /// Main thread: the person's terminal is given back (around a stop of callgate), and taken again.
    void suspend();
    void resume();
    /// Main thread: what the command wrote last is shown, and the terminal given back.
    void stop();

private:
    enum class Wish : std::uint8_t { relay, suspend, stop };

    void run();
    void wait();
    void take_keys();
    void take_output();
    void give_input();
    void on_winch();
    void pass_size(int shrink = 0);
    void follow_wish();
    void wish(Wish what);

    // Prompts.
    void look_for_questions();
    void begin_prompt();
    void draw(bool details);
    void end_prompt();
    void on_line(const std::string& line);
    void answer(rules::Action action, Scope scope);
    void lose_person();

    void show(std::string_view bytes);
    void raw(bool on);

    UniqueFd outer_, master_, slave_, wake_, winch_;
    termios usual_{};
    int number_ = -1;
    std::thread thread_;
    Broker* broker_ = nullptr;
    std::string run_, config_;

    std::mutex mutex_;
    std::condition_variable followed_;
    Wish wish_ = Wish::relay;           // guarded by mutex_
    Wish followed_wish_ = Wish::relay;  // guarded by mutex_

    // The relaying thread's own.
    Screen screen_;
    PromptKeys keys_;
    std::string input_;   // typed, for the command
    std::string held_;    // written by the command, while a prompt is shown
    bool ended_ = false;  // the person's terminal is gone
    bool suspended_ = false;
    std::int64_t last_key_ns_ = 0;
    std::int64_t looked_ns_ = 0;
    bool prompting_ = false, detailed_ = false, on_alternate_ = false, plain_ = false;
    std::optional<Shown> shown_;
};

}  // namespace callgate::approval
