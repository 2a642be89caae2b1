// The terminal that callgate was started on: its holder, its size, its name, and raw mode.
//
// The person who answers sits there. It may be shared: with a shell when callgate is in the background, and
// with the other commands of a pipe. So its modes are read anew each time it is taken. Not thread-safe.
#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include <optional>
#include <string>

#include "agent/person_modes.hpp"
#include "base/unique_fd.hpp"

namespace callgate::approval {

class PersonTerminal {
public:
    /// Opens the controlling terminal. Throws std::runtime_error if there is none.
    PersonTerminal();

    /// The same; nothing if there is none, or if it has no name.
    [[nodiscard]] static std::optional<PersonTerminal> find();

    [[nodiscard]] int descriptor() const { return fd_.get(); }
    /// "/dev/pts/N", "/dev/tty1". Throws std::runtime_error if it has no name.
    [[nodiscard]] std::string name() const;
    /// Whether `fd` is this terminal, by whatever name it was opened.
    [[nodiscard]] bool is(int fd) const;
    /// Whether one of the standard descriptors is this terminal.
    [[nodiscard]] bool is_standard() const { return is(0) || is(1) || is(2); }
    /// Whether callgate's own process group is the one that may read (tcgetpgrp(3)).
    [[nodiscard]] bool foreground() const;
    /// Whether another command may read its keys or write to it: stdin or stdout is a pipe or a socket.
    [[nodiscard]] bool in_pipe() const { return in_pipe_; }
    /// Its modes when it was last taken.
    [[nodiscard]] const termios& usual() const { return usual_; }
    /// All zero if the kernel does not say.
    [[nodiscard]] winsize size() const;

    /// Sets raw mode, because the run's own terminal processes the bytes. In a pipe the output modes stay, as
    /// the other commands may write too. To be called by a thread that blocks SIGTTOU.
    void take();
    /// Sets the modes as they were before `take`.
    void give_back();
    [[nodiscard]] bool taken() const { return taken_; }
    /// From now on the guardian knows how to put the terminal back; `modes` outlives this.
    void share(agent::PersonModes& modes) { shared_ = &modes; }

private:
    UniqueFd fd_;
    termios usual_{};
    bool in_pipe_ = false, taken_ = false;
    agent::PersonModes* shared_ = nullptr;
};

}  // namespace callgate::approval
