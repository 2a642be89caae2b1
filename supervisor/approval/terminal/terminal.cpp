#include "supervisor/approval/terminal/terminal.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/clock.hpp"
#include "base/process/signal_descriptor.hpp"

namespace callgate::approval {

namespace {

agent::SharedModes shared_modes() {
    auto made = agent::SharedModes::make();
    if (!made) throw std::runtime_error("cannot map the modes of the terminal: " + made.error().message());
    return std::move(*made);
}

}  // namespace

Terminal::Terminal() : modes_(shared_modes()), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    person_.share(modes_.modes());
    if (!wake_) throw std::runtime_error(std::string("eventfd: ") + std::strerror(errno));
}

std::shared_ptr<Terminal> Terminal::at_hand() {
    try {
        return std::make_shared<Terminal>();
    } catch (const std::runtime_error&) {
        return nullptr;  // then `callgate approve` answers
    }
}

agent::RunTerminal Terminal::for_run() const {
    agent::RunTerminal terminal;
    terminal.slave = command_.slave();
    terminal.foreground = jobs_.had_keys();
    terminal.person = person_.descriptor();
    terminal.modes = &modes_.modes();
    for (int fd = 0; fd <= 2; ++fd) terminal.replaces[static_cast<unsigned>(fd)] = person_.is(fd);
    return terminal;
}

bool Terminal::start(QuestionQueue& questions, TerminalOwner& owner, std::string run, std::string config,
                     bool asks) {
    owner_ = &owner;
    asks_ = asks;
    prompt_.emplace(person_, command_, relay_, jobs_, questions, std::move(run), std::move(config));
    winch_.reset(open_signals(std::array{SIGWINCH}));
    if (asks_ && person_.foreground() && !person_.in_pipe()) {
        person_.take();
        asks_ = prompt_->answers();
        if (!asks_) person_.give_back();
    }
    jobs_.start(wake_.get());
    const bool asks_here = asks_;  // from here on the thread's
    thread_ = std::thread([this] { this->run(); });
    return asks_here;
}

void Terminal::wake() { ::eventfd_write(wake_.get(), 1); }

void Terminal::stop() {
    if (!thread_.joinable()) return;
    jobs_.request(JobControl::Mode::stopped);
    thread_.join();
    jobs_.stop();
}

void Terminal::run() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    for (;;) {
        if (const auto mode = jobs_.requested()) {
            prompt_->end();
            if (*mode == JobControl::Mode::suspended || *mode == JobControl::Mode::stopped)
                relay_.pass_output();
            jobs_.follow(*mode);
            if (*mode == JobControl::Mode::stopped) return;
        }
        if (!jobs_.suspended()) look_around();
        wait();
    }
}

/// A terminal that is gone asks nobody any more: the owner denies what is asked, or asks elsewhere.
void Terminal::look_around() {
    if (relay_.gone()) {
        prompt_->end();
        if (!std::exchange(lost_, true)) owner_->terminal_lost();
        return;
    }
    if (jobs_.regained()) owner_->foreground_regained();
    if (!asks_) return;
    prompt_->update();
    if (prompt_->unseen()) {
        asks_ = false;
        owner_->terminal_lost();
    }
}

void Terminal::wait() {
    constexpr int look_again_ms = 1000, background_ms = 100;
    const bool active = !jobs_.suspended();
    const bool keys = active && !relay_.gone() &&
                      (prompt_->open() || (jobs_.keys_are_the_commands() && relay_.takes_keys()));
    const short master = static_cast<short>((active && relay_.takes_output() ? POLLIN : 0) |
                                            (relay_.has_keys() ? POLLOUT : 0));
    std::array<pollfd, 4> all{{{wake_.get(), POLLIN, 0},
                               {winch_.get(), POLLIN, 0},
                               {keys ? person_.descriptor() : -1, POLLIN, 0},
                               {master != 0 ? command_.master() : -1, master, 0}}};
    const bool in_background = jobs_.in_background() && !relay_.gone();
    if (::poll(all.data(), all.size(), prompt_->timeout_ms(in_background ? background_ms : look_again_ms)) <
        0)
        return;
    eventfd_t count = 0;
    if (all[0].revents != 0) ::eventfd_read(wake_.get(), &count);
    if (all[1].revents != 0) on_winch();
    if (all[2].revents != 0) on_keys();
    if ((all[3].revents & POLLOUT) != 0) relay_.write_keys();
    if ((all[3].revents & (POLLIN | POLLHUP)) != 0) relay_.pass_output();
    if (prompt_->tick()) owner_->suspend_command();
}

void Terminal::on_winch() {
    signalfd_siginfo info{};
    while (::read(winch_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    }
    command_.follow_size();
    prompt_->resized();
}

void Terminal::on_keys() {
    std::string typed = relay_.read_keys();
    if (typed.empty()) return;
    if (prompt_->open()) {
        if (prompt_->feed(typed)) owner_->suspend_command();
        return;
    }
    typed = prompt_->of_command(typed);
    if (typed.empty()) return;
    prompt_->note_key(monotonic_ns());
    relay_.note_reports(typed);
    relay_.pass_keys(typed);
    relay_.write_keys();
}

}  // namespace callgate::approval
