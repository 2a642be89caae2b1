#include "supervisor/approval/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "supervisor/approval/prompt.hpp"
#include "supervisor/approval/proposal.hpp"
#include "supervisor/approval/wire.hpp"
#include "supervisor/calls/supervision.hpp"

namespace callgate::approval {

namespace {

constexpr std::size_t most_held = 1 << 20, most_input = 4096;
constexpr std::int64_t silence_ns = 300'000'000, millisecond_ns = 1'000'000;

UniqueFd require(int fd, const char* what) {
    if (fd < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
    return UniqueFd(fd);
}

bool has_alternate_screen() {
    const char* const term = ::getenv("TERM");
    const std::string_view kind = term == nullptr ? "" : term;
    return !(kind.empty() || kind == "dumb" || kind.starts_with("linux") || kind.starts_with("vt"));
}

}  // namespace

Terminal::Terminal()
    : outer_(require(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC), "there is no terminal to ask on")),
      master_(require(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), "cannot make a terminal")),
      wake_(require(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      plain_(!has_alternate_screen()) {
    std::array<char, 64> name{};
    if (::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0 ||
        ::ptsname_r(master_.get(), name.data(), name.size()) != 0) {
        throw std::runtime_error(std::string("cannot make a terminal: ") + std::strerror(errno));
    }
    slave_ = require(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), name.data());
    number_ = std::atoi(name.data() + std::strlen("/dev/pts/"));
    if (::tcgetattr(outer_.get(), &usual_) != 0) throw std::runtime_error("/dev/tty is no terminal");
    ::tcsetattr(slave_.get(), TCSANOW, &usual_);
    pass_size();
}

Terminal::~Terminal() { stop(); }

agent::RunTerminal Terminal::for_run() const {
    agent::RunTerminal terminal;
    terminal.slave = slave_.get();
    for (int fd = 0; fd <= 2; ++fd) terminal.replaces[static_cast<unsigned>(fd)] = ::isatty(fd) != 0;
    return terminal;
}

/// /dev/tty stands for it, so its name is found by its number.
std::string Terminal::outer_name() const {
    unsigned device = 0;
    constexpr unsigned first_pts = 136;
    if (::ioctl(outer_.get(), TIOCGDEV, &device) == 0) {
        const unsigned kind = major(device), at = minor(device);
        if (kind >= first_pts && kind < first_pts + 8) {
            return "/dev/pts/" + std::to_string((kind - first_pts) * 256 + at);
        }
    }
    std::array<char, 64> name{};
    for (int fd = 0; fd <= 2; ++fd)
        if (::ttyname_r(fd, name.data(), name.size()) == 0) return name.data();
    throw std::runtime_error("the terminal to ask on has no name");
}

void Terminal::start(Broker& broker, std::string run, std::string config) {
    broker_ = &broker;
    run_ = std::move(run);
    config_ = std::move(config);
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGWINCH);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    winch_ = require(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
    raw(true);
    thread_ = std::thread([this] { this->run(); });
}

void Terminal::wake() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

void Terminal::wish(Wish what) {
    if (!thread_.joinable()) return;
    std::unique_lock lock(mutex_);
    wish_ = what;
    wake();
    followed_.wait(lock, [&] { return followed_wish_ == what; });
}

void Terminal::suspend() { wish(Wish::suspend); }

void Terminal::resume() {
    wish(Wish::relay);
    pass_size();
}

void Terminal::stop() {
    if (!thread_.joinable()) return;
    wish(Wish::stop);
    thread_.join();
    raw(false);
}

/// What the person's terminal does with bytes is the pty's task while the command has it.
void Terminal::raw(bool on) {
    termios mode = usual_;
    if (on) ::cfmakeraw(&mode);
    ::tcsetattr(outer_.get(), TCSADRAIN, &mode);
}

void Terminal::pass_size(int shrink) {
    winsize size{};
    if (::ioctl(outer_.get(), TIOCGWINSZ, &size) != 0) return;
    if (size.ws_row > 1) size.ws_row = static_cast<unsigned short>(size.ws_row - shrink);
    ::ioctl(slave_.get(), TIOCSWINSZ, &size);
}

void Terminal::show(std::string_view bytes) {
    while (!bytes.empty() && !ended_) {
        const ssize_t put = ::write(outer_.get(), bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return lose_person();
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
}

void Terminal::run() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    for (;;) {
        follow_wish();
        if (followed_wish_ == Wish::stop) return;
        if (!suspended_) look_for_questions();
        wait();
    }
}

/// Suspending and stopping give the terminal back first.
void Terminal::follow_wish() {
    const std::lock_guard lock(mutex_);
    if (followed_wish_ == wish_) return;
    if (wish_ == Wish::relay) {
        raw(true);
        suspended_ = false;
        if (prompting_) {
            prompting_ = false;  // it is drawn anew
            shown_.reset();
        }
    } else {
        if (prompting_) end_prompt();
        take_output();
        if (wish_ == Wish::suspend) raw(false);
        suspended_ = true;
    }
    followed_wish_ = wish_;
    followed_.notify_all();
}

void Terminal::wait() {
    const bool keys = !suspended_ && !ended_ && (prompting_ || input_.size() < most_input);
    const bool output = !suspended_ && held_.size() < most_held;
    const short master = static_cast<short>((output ? POLLIN : 0) | (input_.empty() ? 0 : POLLOUT));
    std::array<pollfd, 4> all{{{wake_.get(), POLLIN, 0},
                               {winch_.get(), POLLIN, 0},
                               {keys ? outer_.get() : -1, POLLIN, 0},
                               {master != 0 ? master_.get() : -1, master, 0}}};
    int timeout = 1000;
    if (keys_.waits_for_escape()) timeout = static_cast<int>(PromptKeys::escape_ns / millisecond_ns);
    if (!prompting_ && looked_ns_ != 0) timeout = 50;  // a question waits for silence
    if (::poll(all.data(), all.size(), timeout) < 0) return;
    if (all[0].revents != 0) {
        std::uint64_t count = 0;
        static_cast<void>(::read(wake_.get(), &count, sizeof count));
    }
    if (all[1].revents != 0) on_winch();
    if (all[2].revents != 0) take_keys();
    if ((all[3].revents & POLLOUT) != 0) give_input();
    if ((all[3].revents & (POLLIN | POLLHUP)) != 0) take_output();
    if (prompting_ && keys_.escaped(calls::now_ns())) on_line("");
}

void Terminal::on_winch() {
    signalfd_siginfo info{};
    while (::read(winch_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    }
    pass_size();
    if (prompting_ && shown_) draw(detailed_);
}

/// Nobody is there any more: what is asked is denied, and the hang-up does the rest.
void Terminal::lose_person() {
    if (std::exchange(ended_, true)) return;
    prompting_ = false;
    broker_->open(false);
}

void Terminal::take_keys() {
    std::array<char, most_input> bytes;
    const ssize_t got = ::read(outer_.get(), bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return lose_person();
    const std::int64_t now = calls::now_ns();
    const std::string_view typed(bytes.data(), static_cast<std::size_t>(got));
    if (!prompting_) {
        last_key_ns_ = now;
        input_ += typed;
        return give_input();
    }
    std::string echo;
    const bool fresh = !keys_.touched();
    const auto lines = keys_.feed(typed, now, echo);
    show(echo);
    if (fresh && keys_.touched() && shown_) broker_->rest(shown_->id);
    if (!lines.empty()) on_line(lines.front());  // one line for one prompt
}

void Terminal::give_input() {
    if (input_.empty()) return;
    const ssize_t put = ::write(master_.get(), input_.data(), input_.size());
    if (put > 0) input_.erase(0, static_cast<std::size_t>(put));
}

/// Until nothing more is there at the moment, but not for ever.
void Terminal::take_output() {
    std::array<char, 65536> bytes;
    for (int round = 0; round < 64; ++round) {
        const ssize_t got = ::read(master_.get(), bytes.data(), bytes.size());
        if (got <= 0) return;
        const std::string_view text(bytes.data(), static_cast<std::size_t>(got));
        if (prompting_) {
            held_ += text;
            if (held_.size() >= most_held) return;
        } else {
            screen_.feed(text);
            show(text);
        }
    }
}

void Terminal::look_for_questions() {
    if (ended_) return;
    const auto open = broker_->questions();
    const std::int64_t now = calls::now_ns();
    if (prompting_ && shown_) {
        const bool still =
            std::ranges::any_of(open, [&](const auto& one) { return one.question->id == shown_->id; });
        if (still) return;
        shown_.reset();
    }
    if (open.empty()) {
        looked_ns_ = 0;
        if (prompting_) end_prompt();
        return;
    }
    // The person may be typing, for the command: not into a prompt.
    looked_ns_ = now;
    if (!prompting_ && now - last_key_ns_ < silence_ns) return;
    std::string line = ask_message(open.front(), now);
    line.pop_back();
    auto message = parse_from_run(line, now);
    if (!message.ask) return;
    message.ask->run = run_;
    shown_ = std::move(message.ask);
    if (!prompting_) begin_prompt();
    draw(false);
}

void Terminal::begin_prompt() {
    prompting_ = true;
    on_alternate_ = screen_.alternate();
    show(Screen::calm());
    if (plain_) {
        show("\r\n");
    } else {
        show(on_alternate_ ? "\x1b[?2004h" : "\x1b[?1049h\x1b[?2004h");
    }
}

void Terminal::draw(bool details) {
    winsize size{};
    Look look;
    if (::ioctl(outer_.get(), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) look.columns = size.ws_col;
    look.total = std::max<std::size_t>(broker_->questions().size(), 1);
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
    show(text + "> ");
    ::tcflush(outer_.get(), TCIFLUSH);
    keys_.begin(calls::now_ns());
}

/// Then the screen is what it was: the terminal's own, where it has two; else the command draws it again.
void Terminal::end_prompt() {
    prompting_ = false;
    shown_.reset();
    looked_ns_ = 0;
    if (!plain_) show(on_alternate_ ? "\x1b[?2004l\x1b[2J\x1b[H" : "\x1b[?2004l\x1b[?1049l");
    show(screen_.restore());
    screen_.feed(held_);
    show(std::exchange(held_, {}));
    if (plain_ || on_alternate_) {
        pass_size(1);
        pass_size();
    }
}

void Terminal::answer(rules::Action action, Scope scope) {
    Reply reply;
    reply.action = action;
    reply.scope = scope;
    reply.who = {::getuid(), ::getpid(), "tty"};
    static_cast<void>(broker_->answer(shown_->id, shown_->key, std::move(reply)));
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
            if (const auto name = propose(config_, *shown_))
                return show("proposed as " + *name + "; the question still waits\r\n> ");
            return show("no rule can be proposed\r\n> ");
        case Typed::again:
            return show("not understood; Enter denies\r\n> ");
    }
}

}  // namespace callgate::approval
