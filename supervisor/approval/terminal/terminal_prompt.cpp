#include "supervisor/approval/terminal/terminal_prompt.hpp"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/clock.hpp"
#include "supervisor/approval/protocol/wire.hpp"

namespace callgate::approval {

namespace {

constexpr std::int64_t millisecond_ns = 1'000'000;
constexpr std::int64_t silence_ns = 300 * millisecond_ns;
constexpr std::int64_t position_ns = 200 * millisecond_ns;  // until a terminal has said where its cursor is

std::string_view terminal_kind() {
    const char* const term = ::getenv("TERM");
    return term == nullptr ? "" : term;
}

bool has_alternate_screen() {
    const std::string_view kind = terminal_kind();
    return !(kind.empty() || kind == "dumb" || kind.starts_with("linux") || kind.starts_with("vt"));
}

/// Terminals with one screen that are more than a printer.
bool says_position() {
    const std::string_view kind = terminal_kind();
    return kind.starts_with("linux") || kind.starts_with("vt");
}

/// Takes "ESC [ ROW ; COLUMN R" out of `typed`. False: it is not in there.
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

TerminalPrompt::TerminalPrompt(PersonTerminal& person, CommandTerminal& command, Relay& relay,
                               const JobControl& jobs, QuestionQueue& questions, std::string run,
                               std::string config)
    : person_(person),
      command_(command),
      relay_(relay),
      jobs_(jobs),
      questions_(questions),
      run_(std::move(run)),
      engine_(PromptEngine::Input::keys, std::move(config)),
      one_screen_(!has_alternate_screen()) {}

void TerminalPrompt::update() {
    const auto open = questions_.questions();
    if (const QuestionView* const shown = engine_.question()) {
        if (std::ranges::any_of(open, [&](const auto& one) { return one.question->id == shown->id; })) return;
        engine_.close();
    }
    waiting_ = !open_ && !open.empty();
    if (open.empty()) return end();
    const std::int64_t now = monotonic_ns();
    // In the background a shell, or another job, has the terminal.
    if (!open_ && !person_.foreground()) return announce_in_background(open.front().question->id);
    if (!open_ && now - last_key_ns_ < silence_ns) return;
    waiting_ = false;
    std::string line = ask_message(open.front(), now);
    line.pop_back();
    auto message = parse_from_run(line, now);
    if (!message.ask) return;
    message.ask->run = run_;
    engine_.open(std::move(*message.ask));
    if (!open_) begin();
    draw();
}

void TerminalPrompt::announce_in_background(std::uint64_t question) {
    if (std::exchange(announced_, question) == question) return;
    relay_.show("\r\ncallgate: run " + run_ +
                " asks a question: bring it to the foreground (fg), or answer it with: callgate approve " +
                run_ + "\r\n");
}

/// Other bytes that come meanwhile were typed for the command.
std::optional<TerminalPrompt::Position> TerminalPrompt::ask_position() {
    relay_.show("\x1b[6n");
    std::string typed;
    const std::int64_t end = monotonic_ns() + position_ns;
    Position found;
    bool known = false;
    for (std::int64_t now = monotonic_ns(); !known && now < end; now = monotonic_ns()) {
        pollfd ready{person_.descriptor(), POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>((end - now) / millisecond_ns) + 1) <= 0) continue;
        const std::string more = relay_.read_keys();
        if (more.empty()) break;
        typed += more;
        known = take_position(typed, found.row, found.column);
    }
    if (jobs_.keys_are_the_commands()) relay_.pass_keys(typed);
    return known ? std::optional(found) : std::nullopt;
}

void TerminalPrompt::show(std::string_view text) {
    lines_ += static_cast<int>(std::ranges::count(text, '\n'));
    relay_.show(text);
}

/// Lines that did not fit below the cursor have moved everything above up.
void TerminalPrompt::erase() {
    if (!cursor_at_) return relay_.show("\r\n");
    const int rows = std::max<int>(person_.size().ws_row, 1);
    const int moved = std::max(cursor_at_->row + lines_ - rows, 0);
    const int row = cursor_at_->row - moved;
    relay_.show(row > 0 ? "\x1b[" + std::to_string(row) + ';' + std::to_string(cursor_at_->column) + "H\x1b[J"
                        : std::string("\x1b[H\x1b[J"));
}

void TerminalPrompt::begin() {
    open_ = true;
    relay_.hold();
    on_alternate_ = relay_.screen().alternate();
    if (!jobs_.keys_are_the_commands()) person_.take();
    lines_ = 0;
    cursor_at_ = one_screen_ && says_position() ? ask_position() : std::nullopt;
    relay_.show(Screen::calm());
    if (one_screen_) {
        show("\r\n");
    } else {
        relay_.show(on_alternate_ ? "\x1b[?2004h" : "\x1b[?1049h\x1b[?2004h");
    }
}

void TerminalPrompt::draw() {
    Look look;
    if (const winsize size = person_.size(); size.ws_col > 0) look.columns = size.ws_col;
    look.total = std::max<std::size_t>(questions_.questions().size(), 1);
    look.plain = one_screen_;
    look.now_ns = monotonic_ns();
    show((one_screen_ ? "\r\n" : "\x1b[r\x1b[2J\x1b[H") + engine_.draw(look));
    ::tcflush(person_.descriptor(), TCIFLUSH);
    engine_.drawn(monotonic_ns());
}

void TerminalPrompt::resized() {
    if (engine_.question() != nullptr) draw();
}

void TerminalPrompt::end() {
    if (!std::exchange(open_, false)) return;
    engine_.close();
    if (one_screen_) {
        erase();
    } else {
        relay_.show(on_alternate_ ? "\x1b[?2004l\x1b[2J\x1b[H" : "\x1b[?2004l\x1b[?1049l");
    }
    relay_.show(relay_.screen().restore());
    if (!jobs_.keys_are_the_commands()) person_.give_back();
    relay_.release();
    if (one_screen_ || on_alternate_) command_.redraw();
}

bool TerminalPrompt::feed(std::string_view typed) { return follow(engine_.feed(typed, monotonic_ns())); }

void TerminalPrompt::tick() {
    if (open_) follow(engine_.tick(monotonic_ns()));
}

int TerminalPrompt::timeout_ms(int most) const {
    constexpr int look_again_ms = 50;  // for silence, or for the foreground
    if (waiting_) most = std::min(most, look_again_ms);
    const auto due = engine_.due_ns();
    if (!due) return most;
    const std::int64_t left = std::max<std::int64_t>(*due - monotonic_ns(), 0) / millisecond_ns + 1;
    return static_cast<int>(std::min<std::int64_t>(left, most));
}

bool TerminalPrompt::follow(const PromptStep& step) {
    show(step.text);
    if (step.began) questions_.rest(engine_.question()->id);
    if (step.kind == PromptStep::Kind::answer) answer(step);
    if (step.kind == PromptStep::Kind::redraw) draw();
    return step.kind == PromptStep::Kind::suspend;
}

void TerminalPrompt::answer(const PromptStep& step) {
    Reply reply;
    reply.action = step.action;
    reply.scope = step.scope;
    reply.who = {::getuid(), ::getpid(), "tty"};
    const QuestionView& shown = *engine_.question();
    static_cast<void>(questions_.answer(shown.id, shown.key, std::move(reply)));
    engine_.close();
    update();
}

}  // namespace callgate::approval
