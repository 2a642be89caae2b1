// The person's terminal between the command and other jobs: who has its keys, and what a stop gives back.
//
// The main thread stops and continues with the command, and requests a mode; the relaying thread follows it.
// The command has the keys from the start if it is alone in the foreground. In a pipe, or in the background,
// keys may be meant for another process. Then callgate reads none outside a prompt until the command wants
// the terminal (EventLoop sees it stopped by SIGTTIN or SIGTTOU).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "supervisor/approval/terminal/command_terminal.hpp"
#include "supervisor/approval/terminal/person_terminal.hpp"

namespace callgate::approval {

class JobControl {
public:
    /// keys: they are the command's; watch: only its output is relayed.
    enum class Mode : std::uint8_t { keys, watch, suspended, stopped };

    JobControl(PersonTerminal& person, CommandTerminal& command);

    // Main thread. Between `start` and `stop` the relaying thread has followed the mode when a call returns.
    /// `wake` is the eventfd by which the relaying thread is woken. It begins with the first mode.
    void start(int wake);
    /// The relaying thread has ended.
    void stop() { wake_ = -1; }
    void request(Mode mode);
    /// The command wants the keys. False: callgate is in the background, where nobody may have them.
    [[nodiscard]] bool take();
    /// callgate continues. True if the command has the keys (again).
    [[nodiscard]] bool resume(bool wanted);
    /// Whether the command has had the keys, or gets them at its start.
    [[nodiscard]] bool had_keys() const { return had_keys_; }

    // Relaying thread.
    /// The mode that was requested and is not followed yet.
    [[nodiscard]] std::optional<Mode> requested();
    /// Takes the person's terminal or gives it back; `request` then returns.
    void follow(Mode mode);
    [[nodiscard]] Mode mode() const { return mode_; }
    [[nodiscard]] bool suspended() const { return mode_ == Mode::suspended || mode_ == Mode::stopped; }
    [[nodiscard]] bool keys_are_the_commands() const { return mode_ == Mode::keys; }
    /// The command had the keys, and lost them with the foreground.
    [[nodiscard]] bool in_background() const { return mode_ == Mode::watch && had_keys_; }
    /// True once when callgate is in the foreground again; no signal says so.
    [[nodiscard]] bool regained();

private:
    PersonTerminal& person_;
    CommandTerminal& command_;
    std::atomic<bool> had_keys_;
    int wake_ = -1;

    std::mutex mutex_;
    std::condition_variable followed_;
    std::optional<Mode> requested_;  // guarded by mutex_

    // The relaying thread's own.
    Mode mode_ = Mode::watch;
    bool regained_ = false;  // that was said
};

}  // namespace callgate::approval
