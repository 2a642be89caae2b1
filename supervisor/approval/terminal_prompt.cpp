// Prompts between the bytes that a terminal relays.
#include <unistd.h>

#include <algorithm>

#include "supervisor/approval/prompt.hpp"
#include "supervisor/approval/proposal.hpp"
#include "supervisor/approval/terminal.hpp"
#include "supervisor/approval/wire.hpp"
#include "supervisor/calls/supervision.hpp"

namespace callgate::approval {

namespace {

constexpr std::int64_t silence_ns = 300'000'000;

}  // namespace

void Terminal::look_for_questions() {
    if (ended_) return;
    const auto open = environment_.broker->questions();
    const std::int64_t now = calls::now_ns();
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

void Terminal::begin_prompt() {
    prompting_ = true;
    on_alternate_ = screen_.alternate();
    if (!keys_taken_) person_.take();
    show(Screen::calm());
    if (plain_) {
        show("\r\n");
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
    look.now_ns = calls::now_ns();
    const Drawn drawn = approval::draw(*shown_, look);
    detailed_ = details || !drawn.cut;
    std::string text = plain_ ? "\r\n" : "\x1b[r\x1b[2J\x1b[H";
    for (const char one : drawn.text) {
        if (one == '\n') text += '\r';
        text += one;
    }
    show(text);
    ::tcflush(person_.descriptor(), TCIFLUSH);
    keys_.begin(calls::now_ns());
    armed_at_ns_ = keys_.guarded_until_ns();
}

/// The mark appears when keys count: who types before it sees nothing of it.
void Terminal::ask_for_key(std::string_view before) {
    armed_at_ns_ = 0;
    show(std::string(before) + "> ");
}

/// Then the screen is what it was: the terminal's own, where it has two; else the command draws it again.
void Terminal::end_prompt() {
    prompting_ = false;
    armed_at_ns_ = 0;
    shown_.reset();
    if (!plain_) show(on_alternate_ ? "\x1b[?2004l\x1b[2J\x1b[H" : "\x1b[?2004l\x1b[?1049l");
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
    const auto lines = keys_.feed(typed, calls::now_ns(), echo);
    show(echo);
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
