#include "supervisor/cli/run_terminal.hpp"

#include <unistd.h>

#include "base/test_switch.hpp"
#include "supervisor/approval/terminal/person_terminal.hpp"
#include "supervisor/cli/failure.hpp"

namespace callgate::cli {

namespace {

/// The terminal is shared where a descriptor of it is handed in, or where no other can be made.
bool terminal_is_shared(const Request& request, const approval::PersonTerminal& person) {
    for (const int passed : request.pass) {
        if (!person.is(passed)) continue;
        if (request.ask.who == approval::AskSettings::Who::terminal)
            throw Failure("--pass-fd " + std::to_string(passed) +
                          " is the terminal that you are asked on: the command could answer itself; give "
                          "--ask socket");
        return true;
    }
    return false;
}

}  // namespace

void check_plain_output(const Request& request, const TerminalChoice& choice) {
    if (!request.plain_output) return;
    const auto person = approval::PersonTerminal::find();
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
        if (::isatty(fd) != 0 && !(choice.terminal && person && person->is(fd)))
            throw Failure(
                "--plain-output would filter nothing: the command writes to a terminal that callgate does "
                "not "
                "relay (--mode audit, --pass-fd of it, or not the controlling one); leave the option out, or "
                "give the output to a pipe");
}

TerminalChoice choose_terminal(Request& request) {
    using Who = approval::AskSettings::Who;
    TerminalChoice choice;
    const bool asked = request.ask.who == Who::terminal;
    if ((request.mode != Mode::enforce && !asked) || !check_enabled("own-terminal")) return choice;
    if (asked) choice.terminal = std::make_shared<approval::Terminal>();
    const auto person = approval::PersonTerminal::find();
    if (!person || terminal_is_shared(request, *person)) return choice;
    if (!asked && person->is_standard()) {
        choice.terminal = approval::Terminal::at_hand();
        if (!choice.terminal) return choice;
    }
    request.leave_terminal = !choice.terminal;
    choice.closed_name = person->name();
    return choice;
}

}  // namespace callgate::cli
