// The command's own terminal: a pty that looks like the person's.
//
// The supervisor keeps the master; guardian and command get the slave (agent/terminal.hpp). The command
// chooses every byte that comes from the master.
#pragma once

#include <termios.h>

#include "base/unique_fd.hpp"
#include "supervisor/approval/terminal/person_terminal.hpp"

namespace callgate::approval {

class CommandTerminal {
public:
    /// A new pty with the size and the modes of `person`, which outlives it. Throws std::runtime_error.
    explicit CommandTerminal(const PersonTerminal& person);

    [[nodiscard]] int master() const { return master_.get(); }
    [[nodiscard]] int slave() const { return slave_.get(); }
    /// N of /dev/pts/N.
    [[nodiscard]] int number() const { return number_; }

    /// Takes over the size of the person's terminal. Any thread.
    void follow_size();
    /// Takes over the modes of the person's terminal, unless the command has chosen its own. Those of the
    /// person may have been a shell's, for its line editor, when callgate was in the background.
    void follow_modes();
    /// Tells the command to draw again: its window shrinks by a line and grows again.
    void redraw();

private:
    void set_size(unsigned short missing_rows);

    const PersonTerminal& person_;
    UniqueFd master_, slave_;
    int number_ = -1;
    termios passed_{};  // the modes that were set here last
};

}  // namespace callgate::approval
