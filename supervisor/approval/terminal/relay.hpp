// The bytes between the person's terminal and the command's, both ways.
//
// While a prompt is open the command's output is held: 1 MiB here, then the command waits in the pty. So the
// command cannot draw over a prompt. The relaying thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "supervisor/approval/terminal/command_terminal.hpp"
#include "supervisor/approval/terminal/person_terminal.hpp"
#include "supervisor/approval/terminal/plain_text.hpp"
#include "supervisor/approval/terminal/position.hpp"
#include "supervisor/approval/terminal/screen.hpp"

namespace callgate::approval {

class Relay {
public:
    Relay(const PersonTerminal& person, const CommandTerminal& command)
        : person_(person), command_(command) {}

    /// Writes to the person's terminal.
    void show(std::string_view bytes);
    /// Reads what was typed; "" if nothing was.
    [[nodiscard]] std::string read_keys();
    /// Counts the reports of the cursor's position among keys that go to the command.
    void note_reports(std::string_view typed);
    /// Reports that the terminal still owes to the command.
    [[nodiscard]] std::uint64_t owed_reports() const;
    /// Owes none any more: what has not come by now never will.
    void forget_owed() { answered_ = screen_.position_queries(); }
    /// The person's terminal is gone: a read or a write failed. Nothing is shown from then on.
    [[nodiscard]] bool gone() const { return gone_; }

    /// Queues keys for the command.
    void pass_keys(std::string_view typed) { input_ += typed; }
    void write_keys();
    /// Passes what the command has written. Returns when nothing more is there, or after 4 MiB.
    void pass_output();

    /// Holds output back from now on.
    void hold() { holding_ = true; }
    /// Shows what was held.
    void release();

    [[nodiscard]] bool has_keys() const { return !input_.empty(); }
    [[nodiscard]] bool takes_keys() const;
    [[nodiscard]] bool takes_output() const;
    /// Shows only text and colours of what the command writes (--plain-output).
    void show_plain() { plain_.emplace(); }
    /// The modes that the command has set on its terminal, as far as they were shown.
    [[nodiscard]] const Screen& screen() const { return screen_; }

private:
    const PersonTerminal& person_;
    const CommandTerminal& command_;
    Screen screen_;
    std::optional<PlainText> plain_;
    std::string input_, held_;
    bool gone_ = false, holding_ = false;
    std::uint64_t answered_ = 0;  // position queries
};

}  // namespace callgate::approval
