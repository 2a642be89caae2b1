#include "supervisor/run/event_loop.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/process/processes.hpp"
#include "base/process/signal_descriptor.hpp"
#include "base/test_switch.hpp"
#include "supervisor/run/launch.hpp"

namespace callgate {

namespace {

namespace asio = boost::asio;
using agent::Event;
using agent::Order;

/// SIGTTIN and SIGTTOU reach callgate if a command of its group wants the terminal in the background.
constexpr int handled_signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP,
                                   SIGTTIN, SIGTTOU, SIGCONT, SIGUSR1, SIGUSR2};

int open_event() {
    const int event = ::eventfd(0, EFD_CLOEXEC);
    if (event < 0) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
    return event;
}

/// Stops this process, so that the shell sees what it would see of the command; SIGCONT continues it.
/// A command with a terminal of its own is in another group than callgate. The terminal would have stopped
/// the other commands of its pipe, so callgate stops its whole group. False: an orphaned group does not stop
/// (setpgid(2)).
bool stop_like(int signal, bool whole_group) {
    const bool by_terminal = signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    if (!by_terminal) {
        ::kill(::getpid(), SIGSTOP);
        return true;
    }
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, signal);
    ::kill(whole_group ? 0 : ::getpid(), signal);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // every thread blocks it: it is delivered here
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    sigset_t pending;
    return ::sigpending(&pending) != 0 || ::sigismember(&pending, SIGCONT) != 0;
}

/// Whether callgate's group has the foreground of its controlling terminal, and shares that terminal by a
/// standard descriptor (tcgetpgrp(3) fails on any other terminal).
bool shares_foreground() {
    for (int fd = 0; fd <= 2; ++fd)
        if (::tcgetpgrp(fd) == ::getpgrp()) return true;
    return false;
}

/// Whether nobody is left who could bring callgate's group to the foreground: the first parent outside the
/// group is of another session (setpgid(2)).
bool group_is_orphaned() {
    auto outer = read_process(::getppid());
    while (outer && ::getpgid(outer->pid) == ::getpgrp()) outer = read_process(outer->parent);
    return !outer || ::getsid(outer->pid) != ::getsid(0);
}

}  // namespace

EventLoop::EventLoop()
    : context_(1),
      signals_(context_, open_signals(handled_signals)),
      events_(context_),
      from_apart_(context_, open_event()),
      grace_(context_),
      ticks_(context_),
      foreground_(context_) {}

RunOutcome EventLoop::run(agent::Guardian& guardian, Settings settings) {
    started_ = std::chrono::steady_clock::now();
    guardian_ = &guardian;
    settings_ = std::move(settings);
    events_.assign(guardian.events.release());
    watch_signals();
    watch_events();
    watch_apart();
    set_deadline();
    start_ticks();
    context_.run();
    outcome_.duration_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started_)
            .count();
    return outcome_;
}

void EventLoop::end_tree(Outcome outcome) {
    asio::post(context_, [this, outcome] {
        settle(outcome);
        order(Order::Kind::end);
    });
}

void EventLoop::end_tree_from_apart(Outcome outcome) {
    outcome_from_apart_.store(outcome);
    ::eventfd_write(from_apart_.native_handle(), 1);
}

void EventLoop::watch_apart() {
    from_apart_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
        if (!error) end_tree(outcome_from_apart_.load());
    });
}

void EventLoop::wake_watchdog() {
    asio::post(context_, [this] { start_ticks(); });
}

void EventLoop::run_soon(std::function<void()> what) { asio::post(context_, std::move(what)); }

bool EventLoop::settle(Outcome outcome) {
    if (settled_) return false;
    settled_ = true;
    outcome_.outcome = outcome;
    outcome_.exit_status = exit_status(outcome).value_or(outcome_.exit_status);
    return true;
}

void EventLoop::settle(Outcome outcome, int exit_status) {
    if (settle(outcome)) outcome_.exit_status = exit_status;
}

void EventLoop::order(Order::Kind kind, int value) {
    if (kind == Order::Kind::end || kind == Order::Kind::terminate) ending_ = true;
    Order message{.kind = kind, .value = value};
    if (kind == Order::Kind::deadline) message.milliseconds = settings_.wall->count();
    // A guardian that is gone is noticed by the end of its events.
    while (::write(guardian_->orders.get(), &message, sizeof message) < 0 && errno == EINTR) {
    }
}

void EventLoop::set_deadline() {
    if (settings_.wall) order(Order::Kind::deadline);
}

void EventLoop::start_ticks() {
    ticks_.expires_after(settings_.tick_interval);
    ticks_.async_wait([this](const boost::system::error_code& error) {
        if (!error && !tree_ended_ && settings_.tick()) start_ticks();
    });
}

/// A read may bring several events; each is whole, because it was written so (pipe(7), PIPE_BUF).
void EventLoop::watch_events() {
    events_.async_read_some(
        asio::buffer(received_), [this](const boost::system::error_code& error, std::size_t bytes) {
            // The pipe ends when the guardian is gone, after every event that it sent.
            if (error || bytes < sizeof(Event)) return on_guardian_gone();
            for (std::size_t index = 0; index < bytes / sizeof(Event) && !tree_ended_; ++index)
                on_event(received_[index]);
            if (!tree_ended_) watch_events();
        });
}

void EventLoop::on_event(const Event& event) {
    switch (event.kind) {
        case Event::Kind::confine_failed:
            settle(Outcome::setup_error);
            outcome_.error = std::generic_category().message(event.error());
            break;
        case Event::Kind::exec_failed:
            settle(Outcome::exec_failed, event.error() == ENOENT || event.error() == ENOTDIR ? 127 : 126);
            outcome_.error = std::generic_category().message(event.error());
            break;
        case Event::Kind::stopped:
            on_stopped(event);
            break;
        case Event::Kind::continued:
            stopped_by_ = 0;
            break;
        case Event::Kind::expired:
            settle(Outcome::timeout);
            ending_ = true;
            break;
        case Event::Kind::exited:
            outcome_.exit_code = event.exit_code();
            command_ended(Outcome::exited, event.exit_code());
            break;
        case Event::Kind::signaled:
            outcome_.signal = event.signal();
            command_ended(passed_on_ == event.signal() ? Outcome::cancelled : Outcome::signaled,
                          128 + event.signal());
            break;
        case Event::Kind::lingering:
            // An ordered end takes the others along; the command did not leave them running.
            if (!ending_) outcome_.ended_background = event.processes_left();
            break;
        case Event::Kind::ended:
            outcome_.cpu_ms = event.cpu_us / 1000;
            outcome_.max_rss_kb = event.max_rss_kb;
            outcome_.bytes_written = event.bytes_written;
            outcome_.processes = event.processes;
            outcome_.directory_removed = event.directory_removed();
            finish();
            break;
        case Event::Kind::ready:
        case Event::Kind::confined:
            break;
    }
}

void EventLoop::command_ended(Outcome outcome, int exit_status) {
    settle(outcome, exit_status);
    settings_.command_ended(exit_status);
}

bool EventLoop::wants_terminal() const { return stopped_by_ == SIGTTIN || stopped_by_ == SIGTTOU; }

bool EventLoop::in_foreground() const {
    if (settings_.relay) return settings_.relay->foreground();
    return shares_foreground() || (stopped_by_ == SIGTSTP && terminal_stop_);
}

/// Ending a tree begins with stopping it; such a stop is not answered. What follows a tracer's stop its
/// tracer decides.
void EventLoop::on_stopped(const Event& event) {
    stopped_by_ = event.signal();
    if (ending_ || terminations_ > 0) return;
    const auto stopped = settings_.stopped_by_itself ? settings_.stopped_by_itself : is_stopped;
    if (!stopped(event.pid)) return;
    if (in_foreground() || !check_enabled("background-stop")) return follow_stop();
    if (wants_terminal()) {
        // It would wait for ever.
        if (settings_.relay && group_is_orphaned()) {
            order(Order::Kind::group_signal, SIGHUP);
            return order(Order::Kind::group_signal, SIGCONT);
        }
        if (settings_.wants_terminal) settings_.wants_terminal();
    }
    await_foreground();
}

void EventLoop::follow_stop() {
    if (!settings_.relay) {
        static_cast<void>(stop(false));
        return;
    }
    const bool wanted = wants_terminal();
    if (wanted && settings_.relay->take()) return order(Order::Kind::foreground);
    settings_.relay->give_back();
    continued_ = stop(true);
    continue_command();
}

bool EventLoop::stop(bool whole_group) {
    terminal_stop_ = false;
    order(Order::Kind::stopping);
    if (settings_.stops) settings_.stops();
    const bool stopped = stop_like(stopped_by_, whole_group);
    if (settings_.goes_on) settings_.goes_on();
    order(Order::Kind::resumed);
    return stopped;
}

/// No signal says that the group has the foreground: a shell's `fg` sends none to a job that runs.
void EventLoop::await_foreground() {
    constexpr std::chrono::milliseconds look_again{100};
    foreground_.expires_after(look_again);
    foreground_.async_wait([this](const boost::system::error_code& error) {
        if (error || stopped_by_ == 0 || ending_) return;
        if (!in_foreground()) return await_foreground();
        if (settings_.relay) return continue_command();
        ::kill(0, SIGCONT);
    });
}

void EventLoop::continue_command() {
    const bool holds = settings_.relay->resume(wants_terminal());
    order(holds ? Order::Kind::foreground : Order::Kind::background);
    order(Order::Kind::group_signal, SIGCONT);
}

void EventLoop::suspend_command() {
    asio::post(context_, [this] { order(Order::Kind::group_signal, SIGTSTP); });
}

void EventLoop::give_keys_to_command() {
    asio::post(context_, [this] {
        if (!ending_ && settings_.relay->take()) order(Order::Kind::foreground);
    });
}

void EventLoop::watch_signals() {
    signals_.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this](const boost::system::error_code& error) {
                            if (error) return;
                            signalfd_siginfo info{};
                            while (::read(signals_.native_handle(), &info, sizeof info) ==
                                   static_cast<ssize_t>(sizeof info)) {
                                on_signal(static_cast<int>(info.ssi_signo), info.ssi_code);
                            }
                            if (!tree_ended_) watch_signals();
                        });
}

/// A signal from the terminal reaches the command's group by itself; one from a process is passed on.
void EventLoop::on_signal(int signal, int code) {
    const bool from_terminal = code == SI_KERNEL;
    switch (signal) {
        case SIGINT:
        case SIGQUIT:
        case SIGTSTP:
            if (from_terminal && signal == SIGTSTP) note_terminal_stop();
            if (!from_terminal) {
                passed_on_ = signal;
                order(Order::Kind::signal, signal);
            } else if (settings_.relay) {  // the command has another terminal, and this one was not raw
                order(Order::Kind::group_signal, signal);
            }
            break;
        case SIGTTIN:
        case SIGTTOU:  // the command's own stop says what it wants
            if (!from_terminal) order(Order::Kind::signal, signal);
            break;
        case SIGTERM:
        case SIGHUP:
            on_terminate(signal);
            break;
        case SIGCONT:
            // A process had stopped callgate alone, and may have used the terminal.
            if (settings_.relay && !std::exchange(continued_, false) && settings_.relay->resume(false))
                order(Order::Kind::foreground);
            order(Order::Kind::signal, signal);
            break;
        default:
            order(Order::Kind::signal, signal);
            break;
    }
}

/// The command's stop may have been seen before.
void EventLoop::note_terminal_stop() {
    terminal_stop_ = true;
    if (!settings_.relay && stopped_by_ == SIGTSTP && !ending_) follow_stop();
}

void EventLoop::on_terminate(int signal) {
    ++terminations_;
    if (terminations_ > 1 && signal == SIGTERM) {
        settle(Outcome::cancelled);
        if (!exit_status(outcome_.outcome)) outcome_.exit_status = 128 + signal;
        return order(Order::Kind::end);
    }
    passed_on_ = signal;
    order(Order::Kind::signal, signal);
    if (stopped_by_ != 0) order(Order::Kind::signal, SIGCONT);  // else it would not take the signal
    grace_.expires_after(settings_.grace);
    grace_.async_wait([this, signal](const boost::system::error_code& error) {
        if (error) return;
        settle(Outcome::cancelled, 128 + signal);
        order(Order::Kind::end);
    });
}

void EventLoop::on_guardian_gone() {
    settled_ = true;
    outcome_.outcome = Outcome::cancelled;
    outcome_.exit_status = 125;
    outcome_.error = "the guardian process was killed; everything that it guarded was ended";
    Launched::end_orphans();
    finish();
}

void EventLoop::finish() {
    tree_ended_ = true;
    context_.stop();
}

}  // namespace callgate
