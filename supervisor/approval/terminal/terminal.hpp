// The person's terminal while the command has one of its own.
//
// The command never holds the person's terminal. So it can neither read what is typed at a prompt nor write
// over it. One thread relays the bytes (Relay), follows stops and continues (JobControl) and draws prompts
// (TerminalPrompt). If the person's terminal takes no output, only this thread waits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "agent/terminal.hpp"
#include "supervisor/approval/terminal/terminal_prompt.hpp"

namespace callgate::approval {

/// The run, as its terminal uses it. Any thread calls these.
class TerminalOwner {
public:
    /// Ctrl-Z was typed at a prompt.
    virtual void suspend_command() = 0;
    /// The person's terminal is gone, or has not shown a question.
    virtual void terminal_lost() = 0;
    /// callgate is in the foreground again without having been stopped (`fg` of a job that runs).
    virtual void foreground_regained() = 0;

protected:
    ~TerminalOwner() = default;
};

class Terminal {
public:
    /// Opens the controlling terminal and a new pty like it. Throws std::runtime_error if there is none.
    Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    ~Terminal() { stop(); }

    /// The same; null if that fails.
    [[nodiscard]] static std::shared_ptr<Terminal> at_hand();

    /// The part that guardian and agent get.
    [[nodiscard]] agent::RunTerminal for_run() const;
    /// N of the command's /dev/pts/N.
    [[nodiscard]] int number() const { return command_.number(); }

    /// Begins to relay. Main thread, with its signals blocked. `questions` and `owner` outlive `stop`.
    /// `asks`: questions are asked here. False: that was wanted, and the terminal never answers, so that
    /// nobody could know whether a question is seen.
    bool start(QuestionQueue& questions, TerminalOwner& owner, std::string run, std::string config,
               bool asks);
    /// Before `start`: only text and colours of what the command writes are shown.
    void show_plain() { relay_.show_plain(); }
    /// Any thread: questions came or went.
    void wake();

    // Main thread; the relaying thread has done it when the call returns.
    /// Whether callgate's group has the foreground.
    [[nodiscard]] bool foreground() const { return person_.foreground(); }
    /// The command wants the keys. False: callgate is in the background, where nobody may have them.
    [[nodiscard]] bool take() { return jobs_.take(); }
    /// Gives the person's terminal back, before callgate stops.
    void suspend() { jobs_.request(JobControl::Mode::suspended); }
    /// callgate continues. True if the command has the keys (again). The modes of the terminal are set anew,
    /// as another process may have changed them, and a prompt is drawn anew.
    [[nodiscard]] bool resume(bool wanted) { return jobs_.resume(wanted); }
    /// Shows what the command wrote last, and gives the terminal back.
    void stop();

private:
    void run();
    void look_around();
    void wait();
    void on_winch();
    void on_keys();

    agent::SharedModes modes_;
    PersonTerminal person_;
    CommandTerminal command_{person_};
    Relay relay_{person_, command_};
    JobControl jobs_{person_, command_};
    UniqueFd wake_, winch_;
    TerminalOwner* owner_ = nullptr;        // from `start` on
    std::optional<TerminalPrompt> prompt_;  // from `start` on
    bool asks_ = true;
    bool lost_ = false;  // the owner was told
    std::thread thread_;
};

}  // namespace callgate::approval
