// Prompts between the bytes that a terminal relays.
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "supervisor/approval/terminal/prompt.hpp"
#include "supervisor/approval/terminal/proposal.hpp"
#include "supervisor/approval/terminal/terminal.hpp"
#include "supervisor/approval/protocol/wire.hpp"
#include "base/clock.hpp"

namespace callgate::approval {

namespace {

constexpr std::int64_t silence_ns = 300'000'000;
constexpr std::int64_t position_ns = 200'000'000;  // until a terminal has said where its cursor is

/// Terminals with one screen that are more than a printer.
bool says_position() {
    const char* const term = ::getenv("TERM");
    const std::string_view kind = term == nullptr ? "" : term;
    return kind.starts_with("linux") || kind.starts_with("vt");
}

/// "ESC [ ROW ; COLUMN R" somewhere in `typed`, which is taken out of it.
bool take_position(std::string& typed, int& row, int& column) {
    for (std::size_t at = typed.find("\x1b["); at != std::string::npos; at = typed.find("\x1b[", at + 1)) {
        const char* const end = typed.data() + typed.size();
        const auto [semicolon, row_error] = std::from_chars(typed.data() + at + 2, end, row);
        if (row_error != std::errc{} || semicolon == end || *semicolon != ';') continue;
        const auto [final, column_error] = std::from_chars(semicolon + 1, end, column);
        if (column_error != std::errc{} || final == end || *final != 'R') continue;
        typed.erase(at, static_cast<std::size_t>(final + 1 - (typed.data() + at)));
        return row > 0 && column > 0;
    }
    return false;
}

}  // namespace

void Terminal::look_for_questions() {
    if (ended_) return;
    const auto open = environment_.broker->questions();
    const std::int64_t now = monotonic_ns();
    if (prompting_ && shown_) {
        const bool still =
            std::ranges::any_of(open, [&](const auto& one) { return one.question->id == shown_->id; });
        if (still) return;
        shown_.reset();
    }
    looking_ = false;
    if (open.empty()) {
        if (prompting_) end_prompt();
        return;
    }
    looking_ = !prompting_;
    // A shell, or another job, has the terminal.
    if (!prompting_ && !person_.foreground()) return tell_in_background(open.front().question->id);
    // The person may be typing, for the command: not into a prompt.
    if (!prompting_ && now - last_key_ns_ < silence_ns) return;
    looking_ = false;
    std::string line = ask_message(open.front(), now);
    line.pop_back();
    auto message = parse_from_run(line, now);
    if (!message.ask) return;
    message.ask->run = environment_.run;
    shown_ = std::move(message.ask);
    if (!prompting_) begin_prompt();
    draw(false);
}

void Terminal::tell_in_background(std::uint64_t question) {
    if (std::exchange(told_, question) == question) return;
    show("\r\ncallgate: run " + environment_.run +
         " asks a question: bring it to the foreground (fg), or answer it with: callgate approve " +
         environment_.run + "\r\n");
}

/// What else comes meanwhile was typed for the command.
std::optional<Terminal::Position> Terminal::ask_position() {
    show("\x1b[6n");
    std::string typed;
    const std::int64_t end = monotonic_ns() + position_ns;
    Position found;
    bool known = false;
    for (std::int64_t now = monotonic_ns(); !known && now < end; now = monotonic_ns()) {
        pollfd ready{person_.descriptor(), POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>((end - now) / 1'000'000) + 1) <= 0) continue;
        std::array<char, 256> bytes;
        const ssize_t got = ::read(person_.descriptor(), bytes.data(), bytes.size());
        if (got <= 0) break;
        typed.append(bytes.data(), static_cast<std::size_t>(got));
        known = take_position(typed, found.row, found.column);
    }
    if (keys_taken_) input_ += typed;
    return known ? std::optional(found) : std::nullopt;
}

void Terminal::show_prompt(std::string_view text) {
    prompt_lines_ += static_cast<int>(std::ranges::count(text, '\n'));
    show(text);
}

/// Where the lines of the prompt did not fit beneath the cursor, everything above was moved up by them.
void Terminal::erase_prompt() {
    if (!prompt_at_) return show("\r\n");
    const int rows = std::max<int>(person_.size().ws_row, 1);
    const int moved = std::max(prompt_at_->row + prompt_lines_ - rows, 0);
    const int row = prompt_at_->row - moved;
    show(row > 0 ? "\x1b[" + std::to_string(row) + ';' + std::to_string(prompt_at_->column) + "H\x1b[J"
                 : std::string("\x1b[H\x1b[J"));
}

void Terminal::begin_prompt() {
    prompting_ = true;
    on_alternate_ = screen_.alternate();
    if (!keys_taken_) person_.take();
    prompt_lines_ = 0;
    prompt_at_ = plain_ && says_position() ? ask_position() : std::nullopt;
    show(Screen::calm());
    if (plain_) {
        show_prompt("\r\n");
    } else {
        show(on_alternate_ ? "\x1b[?2004h" : "\x1b[?1049h\x1b[?2004h");
    }
}

void Terminal::draw(bool details) {
    Look look;
    if (const winsize size = person_.size(); size.ws_col > 0) look.columns = size.ws_col;
    look.total = std::max<std::size_t>(environment_.broker->questions().size(), 1);
    look.details = details;
    look.plain = plain_;
    look.now_ns = monotonic_ns();
    const Drawn drawn = approval::draw(*shown_, look);
    detailed_ = details || !drawn.cut;
    std::string text = plain_ ? "\r\n" : "\x1b[r\x1b[2J\x1b[H";
    for (const char one : drawn.text) {
        if (one == '\n') text += '\r';
        text += one;
    }
    show_prompt(text);
    ::tcflush(person_.descriptor(), TCIFLUSH);
    keys_.begin(monotonic_ns());
    confined_at_ns_ = keys_.guarded_until_ns();
}

/// The mark appears when keys count: who types before it sees nothing of it.
void Terminal::ask_for_key(std::string_view before) {
    confined_at_ns_ = 0;
    show_prompt(std::string(before) + "> ");
}

/// Then the screen is what it was: the terminal's own, where it has two; else the prompt is erased, and the
/// command is told to draw again.
void Terminal::end_prompt() {
    prompting_ = false;
    confined_at_ns_ = 0;
    shown_.reset();
    if (plain_) {
        erase_prompt();
    } else {
        show(on_alternate_ ? "\x1b[?2004l\x1b[2J\x1b[H" : "\x1b[?2004l\x1b[?1049l");
    }
    show(screen_.restore());
    if (!keys_taken_) person_.give_back();
    screen_.feed(held_);
    show(std::exchange(held_, {}));
    if (plain_ || on_alternate_) {
        pass_size(1);
        pass_size();
    }
}

void Terminal::on_keys(std::string_view typed) {
    std::string echo;
    const bool fresh = !keys_.touched();
    const auto lines = keys_.feed(typed, monotonic_ns(), echo);
    show_prompt(echo);
    if (keys_.take_suspend()) return environment_.suspend();
    if (fresh && keys_.touched() && shown_) environment_.broker->rest(shown_->id);
    if (!lines.empty()) on_line(lines.front());  // one line for one prompt
}

void Terminal::answer(rules::Action action, Scope scope) {
    Reply reply;
    reply.action = action;
    reply.scope = scope;
    reply.who = {::getuid(), ::getpid(), "tty"};
    static_cast<void>(environment_.broker->answer(shown_->id, shown_->key, std::move(reply)));
    shown_.reset();
    look_for_questions();
}

void Terminal::on_line(const std::string& line) {
    if (!shown_) return;
    switch (understand(line, *shown_, detailed_)) {
        case Typed::deny:
            return answer(rules::Action::deny, Scope::once);
        case Typed::once:
            return answer(rules::Action::allow, Scope::once);
        case Typed::object:
            return answer(rules::Action::allow, Scope::object);
        case Typed::tree:
            return answer(rules::Action::allow, Scope::tree);
        case Typed::deny_run:
            return answer(rules::Action::deny, shown_->offers(Scope::object) ? Scope::object : Scope::once);
        case Typed::kill:
            return answer(rules::Action::kill, Scope::once);
        case Typed::details:
            return draw(true);
        case Typed::propose:
            if (const auto name = propose(environment_.config, *shown_))
                return ask_for_key("proposed as " + *name + "; the question still waits\r\n");
            else
                return ask_for_key("no rule can be proposed: " + name.error().message() + "\r\n");
        case Typed::again:
            return ask_for_key("not understood; Enter denies\r\n");
    }
}

}  // namespace callgate::approval
