#include "supervisor/approval/terminal/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "base/write_all.hpp"
#include "base/clock.hpp"
#include "base/process/signal_descriptor.hpp"

namespace callgate::approval {

namespace {

constexpr std::size_t max_held = 1 << 20, max_input = 4096;
constexpr std::int64_t millisecond_ns = 1'000'000;

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
    : master_(require(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), "cannot make a terminal")),
      wake_(require(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      plain_(!has_alternate_screen()) {
    std::array<char, 64> name{};
    if (::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0 ||
        ::ptsname_r(master_.get(), name.data(), name.size()) != 0) {
        throw std::runtime_error(std::string("cannot make a terminal: ") + std::strerror(errno));
    }
    slave_ = require(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), name.data());
    number_ = std::atoi(name.data() + std::strlen("/dev/pts/"));
    passed_ = person_.usual();
    ::tcsetattr(slave_.get(), TCSANOW, &passed_);
    ::tcgetattr(slave_.get(), &passed_);
    pass_size();
    had_keys_ = person_.foreground() && !person_.in_pipe();
}

Terminal::~Terminal() { stop(); }

std::shared_ptr<Terminal> Terminal::at_hand() {
    if (::isatty(0) == 0 && ::isatty(1) == 0 && ::isatty(2) == 0) return nullptr;
    try {
        auto terminal = std::make_shared<Terminal>();
        static_cast<void>(terminal->outer_name());
        for (int fd = 0; fd <= 2; ++fd)
            if (terminal->person_.is(fd)) return terminal;
    } catch (const std::runtime_error&) {
        // Then somebody else is asked.
    }
    return nullptr;
}

agent::RunTerminal Terminal::for_run() const {
    agent::RunTerminal terminal;
    terminal.slave = slave_.get();
    terminal.foreground = had_keys_;
    for (int fd = 0; fd <= 2; ++fd) terminal.replaces[static_cast<unsigned>(fd)] = person_.is(fd);
    return terminal;
}

void Terminal::start(Environment environment) {
    environment_ = std::move(environment);
    winch_.reset(open_signals(std::array{SIGWINCH}));
    if (had_keys_) wish_ = Wish::keys;
    anew_ = true;
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
    anew_ = true;
    wake();
    followed_.wait(lock, [&] { return !anew_; });
}

bool Terminal::take() {
    if (!person_.foreground()) return false;
    had_keys_ = true;
    pass_size();
    wish(Wish::keys);
    return true;
}

void Terminal::suspend() { wish(Wish::suspend); }

bool Terminal::resume(bool wanted) {
    pass_size();
    if ((wanted || had_keys_) && take()) return true;
    wish(Wish::watch);
    return false;
}

void Terminal::stop() {
    if (!thread_.joinable()) return;
    wish(Wish::stop);
    thread_.join();
}

void Terminal::pass_size(int shrink) {
    winsize size = person_.size();
    if (size.ws_row == 0) return;
    if (size.ws_row > 1) size.ws_row = static_cast<unsigned short>(size.ws_row - shrink);
    ::ioctl(slave_.get(), TIOCSWINSZ, &size);
}

/// In the background the modes that were found were a shell's, for its line editor. Those that the command
/// chose itself stay.
void Terminal::pass_modes() {
    const auto same = [](const termios& one, const termios& other) {
        return one.c_iflag == other.c_iflag && one.c_oflag == other.c_oflag && one.c_lflag == other.c_lflag &&
               std::equal(std::begin(one.c_cc), std::end(one.c_cc), std::begin(other.c_cc));
    };
    termios now{};
    if (::tcgetattr(slave_.get(), &now) != 0 || !same(now, passed_)) return;
    passed_ = person_.usual();
    ::tcsetattr(slave_.get(), TCSANOW, &passed_);
    ::tcgetattr(slave_.get(), &passed_);
}

void Terminal::show(std::string_view bytes) {
    if (!ended_ && !write_all(person_.descriptor(), bytes)) lose_person();
}

void Terminal::run() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    for (;;) {
        follow_wish();
        if (followed_wish_ == Wish::stop) return;
        if (!suspended_) {
            look_for_foreground();
            look_for_questions();
        }
        wait();
    }
}

/// No signal tells of it.
void Terminal::look_for_foreground() {
    if (keys_taken_ || regained_ || !had_keys_ || ended_ || !person_.foreground()) return;
    regained_ = true;
    environment_.regained();
}

/// A prompt that is open is given up before, and drawn anew afterwards.
void Terminal::follow_wish() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(anew_, false)) return;
    if (prompting_) end_prompt();
    suspended_ = wish_ == Wish::suspend || wish_ == Wish::stop;
    if (suspended_) take_output();
    keys_taken_ = wish_ == Wish::keys;
    regained_ = false;
    if (keys_taken_) {
        person_.take();
        pass_modes();
    } else {
        person_.give_back();
    }
    followed_wish_ = wish_;
    followed_.notify_all();
}

void Terminal::wait() {
    const bool keys = !suspended_ && !ended_ && (prompting_ || (keys_taken_ && input_.size() < max_input));
    const bool output = !suspended_ && held_.size() < max_held;
    const short master = static_cast<short>((output ? POLLIN : 0) | (input_.empty() ? 0 : POLLOUT));
    std::array<pollfd, 4> all{{{wake_.get(), POLLIN, 0},
                               {winch_.get(), POLLIN, 0},
                               {keys ? person_.descriptor() : -1, POLLIN, 0},
                               {master != 0 ? master_.get() : -1, master, 0}}};
    const bool in_background = !suspended_ && !keys_taken_ && had_keys_ && !ended_;
    int timeout = in_background ? 100 : 1000;
    if (keys_.waits_for_escape()) timeout = static_cast<int>(PromptKeys::escape_ns / millisecond_ns);
    if (looking_) timeout = 50;  // for silence, or the foreground
    if (confined_at_ns_ != 0)
        timeout =
            static_cast<int>(std::max<std::int64_t>(confined_at_ns_ - monotonic_ns(), 0) / millisecond_ns) + 1;
    if (::poll(all.data(), all.size(), timeout) < 0) return;
    if (all[0].revents != 0) {
        std::uint64_t count = 0;
        static_cast<void>(::read(wake_.get(), &count, sizeof count));
    }
    if (all[1].revents != 0) on_winch();
    if (all[2].revents != 0) take_keys();
    if ((all[3].revents & POLLOUT) != 0) give_input();
    if ((all[3].revents & (POLLIN | POLLHUP)) != 0) take_output();
    if (prompting_ && keys_.escaped(monotonic_ns())) on_line("");
    if (prompting_ && confined_at_ns_ != 0 && monotonic_ns() >= confined_at_ns_) ask_for_key();
}

void Terminal::on_winch() {
    signalfd_siginfo info{};
    while (::read(winch_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    }
    pass_size();
    if (prompting_ && shown_) draw(detailed_);
}

/// Nobody is there any more: somebody else is asked, or what is asked is denied. The hang-up does the rest.
void Terminal::lose_person() {
    if (std::exchange(ended_, true)) return;
    prompting_ = false;
    confined_at_ns_ = 0;
    looking_ = false;
    environment_.lost();
}

void Terminal::take_keys() {
    std::array<char, max_input> bytes;
    const ssize_t got = ::read(person_.descriptor(), bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return lose_person();
    const std::string_view typed(bytes.data(), static_cast<std::size_t>(got));
    if (prompting_) return on_keys(typed);
    last_key_ns_ = monotonic_ns();
    input_ += typed;
    give_input();
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
            if (held_.size() >= max_held) return;
        } else {
            screen_.feed(text);
            show(text);
        }
    }
}

}  // namespace callgate::approval
