#include "supervisor/approval/terminal/terminal_prompt.hpp"

#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "base/test_switch.hpp"
#include "supervisor/approval/protocol/wire.hpp"

namespace callgate::approval {

namespace {

constexpr std::int64_t millisecond_ns = 1'000'000;
constexpr std::int64_t silence_ns = 300 * millisecond_ns;
constexpr std::int64_t position_ns = 1000 * millisecond_ns;  // until a terminal has said where its cursor is
constexpr int max_attempts = 3;

std::string_view terminal_kind() {
    const char* const term = ::getenv("TERM");
    return term == nullptr ? "" : term;
}

bool has_alternate_screen() {
    const std::string_view kind = terminal_kind();
    return !(kind.empty() || kind == "dumb" || kind.starts_with("linux") || kind.starts_with("vt"));
}

/// A terminal that does not say its size has at least that of the first ones.
int rows_of(const winsize& size) { return size.ws_row > 0 ? size.ws_row : 24; }

bool is_console() { return terminal_kind().starts_with("linux"); }

/// At least 1, at most `most`.
int random_upto(int most) {
    std::uint32_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number) return 1;
    return 1 + static_cast<int>(number % static_cast<std::uint32_t>(std::max(most, 1)));
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
    if (unseen_) return;
    const auto open = questions_.questions();
    if (const QuestionView* const shown = engine_.question()) {
        if (std::ranges::any_of(open, [&](const auto& one) { return one.question->id == shown->id; })) return;
        if (open.empty()) return over();
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
    if (unseen_) give_up();
}

/// The question was not answered here, and a person may be typing for it. Nothing is written to the screen of
/// a full-screen program, and nothing where nobody types.
void TerminalPrompt::over() {
    const bool to_enter = engine_.begun() && !relay_.screen().alternate();
    end();
    if (jobs_.keys_are_the_commands())
        late_.begin(to_enter, monotonic_ns());
    else
        ::tcflush(person_.descriptor(), TCIFLUSH);
    late_is_told_ = to_enter;
    if (to_enter) tell_late("; your line is dropped up to Enter");
}

void TerminalPrompt::tell_late(std::string_view what) {
    relay_.show(Screen::end_strings() + "\r\ncallgate: that question is over, answered elsewhere or denied" +
                std::string(what) + "\r\n");
}

std::string TerminalPrompt::of_command(std::string_view typed) {
    std::string passed = late_.pass(typed, monotonic_ns());
    if (late_.take_dropped() && !std::exchange(late_is_told_, true)) {
        if (relay_.screen().alternate())
            relay_.show("\a");
        else
            tell_late("; what is typed for it is dropped");
    }
    return passed;
}

/// The question waits for another channel, or is denied.
void TerminalPrompt::give_up() {
    end();
    relay_.show(Screen::end_strings() + "\r\ncallgate: this terminal did not show a question of run " + run_ +
                "; its questions are denied unless callgate approve " + run_ + " answers them\r\n");
}

void TerminalPrompt::announce_in_background(std::uint64_t question) {
    if (std::exchange(announced_, question) == question) return;
    relay_.show(Screen::end_strings() + "\r\ncallgate: run " + run_ +
                " asks a question: bring it to the foreground (fg), or answer it with: callgate approve " +
                run_ + "\r\n");
}

/// Bytes that come meanwhile and are no report are left in `typed`.
std::vector<Position> TerminalPrompt::reports(std::string_view questions, std::size_t count,
                                              std::string& typed) {
    relay_.show(questions);
    std::vector<Position> found;
    const std::int64_t end = monotonic_ns() + position_ns;
    for (std::int64_t now = monotonic_ns(); found.size() < count && now < end; now = monotonic_ns()) {
        pollfd ready{person_.descriptor(), POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>((end - now) / millisecond_ns) + 1) <= 0) continue;
        const std::string more = relay_.read_keys();
        if (more.empty()) break;
        typed += more;
        while (const auto one = take_position(typed)) found.push_back(*one);
    }
    return found;
}

bool TerminalPrompt::answers() {
    std::string typed;
    const bool found = !reports("\x1b[6n", 1, typed).empty();
    relay_.pass_keys(typed);
    return found;
}

std::optional<Position> TerminalPrompt::ask_position() {
    std::string typed;
    const auto owed = static_cast<std::size_t>(relay_.owed_reports());
    const auto found = reports("\x1b[6n", owed + 1, typed);
    relay_.forget_owed();
    if (jobs_.keys_are_the_commands()) relay_.pass_keys(typed);
    return found.size() > owed ? std::optional(found.back()) : std::nullopt;
}

/// Two places are asked for. At the first one the cursor is only if every line of the frame was taken as
/// such. The second one is random, so that no report that the target caused can be meant. What was typed
/// meanwhile was typed before the prompt could be read: only Ctrl-Z counts.
bool TerminalPrompt::seen_at(const Position& end) {
    const winsize size = person_.size();
    const Position other{random_upto(rows_of(size)), random_upto(size.ws_col > 0 ? size.ws_col : 80)};
    const auto owed = static_cast<std::size_t>(relay_.owed_reports());
    std::string typed;
    const auto found = reports("\x1b[6n" + move_to(other) + "\x1b[6n" + move_to(end), owed + 2, typed);
    relay_.forget_owed();
    suspend_typed_ = suspend_typed_ || typed.find('\x1a') != std::string::npos;
    return found.size() == owed + 2 && found[owed] == end && found[owed + 1] == other;
}

void TerminalPrompt::show(std::string_view text) {
    lines_ += static_cast<int>(std::ranges::count(text, '\n'));
    relay_.show(text);
}

/// Lines that did not fit below the cursor have moved everything above up.
int TerminalPrompt::moved_up() const {
    return std::max(cursor_at_->row + lines_ - rows_of(person_.size()), 0);
}

void TerminalPrompt::erase() {
    if (!cursor_at_) return relay_.show("\r\n");
    const int row = cursor_at_->row - moved_up();
    relay_.show(row > 0 ? "\x1b[" + std::to_string(row) + ';' + std::to_string(cursor_at_->column) + "H\x1b[J"
                        : std::string("\x1b[H\x1b[J"));
}

void TerminalPrompt::begin() {
    open_ = true;
    relay_.hold();
    on_alternate_ = relay_.screen().alternate();
    if (!jobs_.keys_are_the_commands()) person_.take();
    lines_ = 0;
    relay_.show(Screen::end_strings());
    cursor_at_ = one_screen_ ? ask_position() : std::nullopt;
    if (!one_screen_ && !on_alternate_) relay_.show("\x1b[?1049h");
}

/// The frame begins at a random row, if the screen has room.
void TerminalPrompt::draw() {
    for (int attempt = 0; attempt < max_attempts && !relay_.gone(); ++attempt) {
        if (draw_frame()) {
            ::tcflush(person_.descriptor(), TCIFLUSH);
            return engine_.drawn(monotonic_ns());
        }
    }
    unseen_ = true;
}

bool TerminalPrompt::draw_frame() {
    Look look;
    const winsize size = person_.size();
    if (size.ws_col > 0) look.columns = size.ws_col;
    look.total = std::max<std::size_t>(questions_.questions().size(), 1);
    look.rows = static_cast<std::size_t>(rows_of(size));
    look.scrolls_back = false;
    look.plain = one_screen_;
    look.now_ns = monotonic_ns();
    const std::string frame = engine_.draw(look);
    const int lines = static_cast<int>(std::ranges::count(frame, '\n')), rows = rows_of(size);
    relay_.show(Screen::end_strings() + Screen::reset(is_console()));
    Position start;
    if (!one_screen_) {
        start = {random_upto(rows - lines - 1), 1};
        relay_.show("\x1b[?2004h\x1b[2J");
    } else {
        if (!cursor_at_) return false;
        start = {std::min(cursor_at_->row + lines_, rows), 1};
        relay_.show("\x1b[?2004h");
    }
    show(move_to(start) + (one_screen_ ? "\r\n" : "") + frame);
    const int end = start.row + lines + (one_screen_ ? 1 : 0);
    const bool seen = seen_at({std::min(end, rows), 1}) && !relay_.screen().covered();
    return seen || !check_enabled("prompt-is-seen");
}

void TerminalPrompt::resized() {
    if (engine_.question() == nullptr) return;
    draw();
    if (unseen_) give_up();
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

bool TerminalPrompt::tick() {
    if (open_) follow(engine_.tick(monotonic_ns()));
    return std::exchange(suspend_typed_, false);
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
    if (step.kind == PromptStep::Kind::redraw) resized();
    return step.kind == PromptStep::Kind::suspend;
}

void TerminalPrompt::answer(const PromptStep& step) {
    Reply reply;
    reply.action = step.action;
    reply.scope = step.scope;
    reply.tree = step.width.tree;
    reply.reads_and_writes = step.width.reads_and_writes;
    reply.who = {::getuid(), ::getpid(), "tty"};
    const QuestionView& shown = *engine_.question();
    static_cast<void>(questions_.answer(shown.id, shown.key, std::move(reply)));
    engine_.close();
    update();
}

}  // namespace callgate::approval
