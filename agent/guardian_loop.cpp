#include "agent/guardian_loop.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/process/processes.hpp"
#include "base/process/remove_tree.hpp"
#include "base/test_switch.hpp"

namespace callgate::agent {
namespace {

// Time between SIGTERM and SIGKILL for processes that the command left running (`--background`).
constexpr std::chrono::milliseconds background_grace{200};
// Helpers such as Python's resource tracker end by themselves when the command's end closes their pipe.
constexpr std::chrono::milliseconds background_patience{100};
constexpr int reaped_at_once = 64;
constexpr int look_again_ms = 20;
// A supervisor that is stopped while it should run is continued within this time.
constexpr int wake_ms = 50;
constexpr int reaped_while_ending = 10'000;
constexpr std::uint64_t rusage_block_bytes = 512;

std::uint64_t microseconds(const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000U + static_cast<std::uint64_t>(time.tv_usec);
}

bool is_end(int code) { return code == CLD_EXITED || code == CLD_KILLED || code == CLD_DUMPED; }

int same_class(int code) {
    if (is_end(code)) return WEXITED;
    return code == CLD_CONTINUED ? WCONTINUED : WSTOPPED;
}

bool any_child() {
    siginfo_t seen{};
    return ::waitid(P_ALL, 0, &seen, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

bool any_child_after_reaping() {
    pid_t reaped = 0;
    for (int round = 0; round < reaped_while_ending; ++round) {
        if ((reaped = ::waitpid(-1, nullptr, WNOHANG)) <= 0) return reaped == 0 || errno != ECHILD;
    }
    return true;
}

// At most one SIGCHLD is pending (signal(7)).
void drain(int signals) {
    signalfd_siginfo info{};
    static_cast<void>(::read(signals, &info, sizeof info) == sizeof info);
}

}  // namespace

GuardianLoop::GuardianLoop(const GuardianConfig& config, GuardChannels channels, pid_t command,
                           pid_t supervisor)
    : config_(config), channels_(std::move(channels)), command_(command), supervisor_(supervisor) {}

int GuardianLoop::run() {
    for (;;) {
        const Children children = reap(reaped_at_once);
        if (children == Children::none && command_reaped_) break;
        wait_for_something(children);
        keep_deadlines();
        wake_supervisor();
    }
    return finish();
}

void GuardianLoop::wait_for_something(Children children) {
    const int timeout = children == Children::more ? 0 : timeout_ms();
    std::array<pollfd, 3> waiting{{{channels_.orders.get(), POLLIN, 0},
                                   {channels_.children.get(), POLLIN, 0},
                                   {channels_.status.get(), POLLIN, 0}}};
    if (::poll(waiting.data(), waiting.size(), timeout) <= 0) return;
    if (waiting[2].revents != 0) receive_status();
    if (waiting[1].revents != 0) drain(channels_.children.get());
    if (waiting[0].revents != 0) receive_order();
}

void GuardianLoop::receive_order() {
    Order order;
    const ssize_t got = ::read(channels_.orders.get(), &order, sizeof order);
    if (got < 0 && errno == EINTR) return;
    if (got != sizeof order) lost();
    switch (order.kind) {
        case Order::Kind::signal:
            // An unreaped process still owns its number, so no other process can get this signal.
            if (command_reaped_) return;
            ::kill(command_, order.value);
            return;
        case Order::Kind::group_signal:
            if (!command_reaped_) ::kill(-command_, order.value);
            return;
        case Order::Kind::foreground:
            // A shell's `fg` does the same.
            give_terminal(config_.terminal.slave, command_);
            if (!command_reaped_) ::kill(-command_, SIGCONT);
            return;
        case Order::Kind::background:
            give_terminal(config_.terminal.slave, ::getpgrp());
            return;
        case Order::Kind::deadline:
            deadline_ = Clock::now() + std::chrono::milliseconds(order.milliseconds);
            return;
        case Order::Kind::stopping:
            supervisor_stops_ = true;
            return;
        case Order::Kind::resumed:
            supervisor_stops_ = false;
            return;
        case Order::Kind::terminate:
            signal_all({SIGTERM, SIGCONT});
            return;
        case Order::Kind::end:
            end_all();
            return;
        case Order::Kind::dismiss:
            dismissed_ = true;
            return;
    }
    lost();
}

void GuardianLoop::receive_status() {
    while (channels_.status) {
        Event event;
        const ssize_t got = ::read(channels_.status.get(), &event, sizeof event);
        if (got < 0) {
            if (errno == EINTR) continue;
            return;
        }
        if (got != sizeof event) return status_closed();
        if (event.kind == Event::Kind::confined)
            confined_ = true;
        else
            failed_ = true;
        send(event);
    }
}

// The status pipe is closed by execve, or by the agent's death before it.
void GuardianLoop::status_closed() {
    channels_.status.reset();
    if (confined_ && !failed_) drop_spare_capability();
}

// All control groups were known before the command began, so the spare capability is needed only if one
// exists.
void GuardianLoop::drop_spare_capability() const {
    const CreatedIpc* const made = config_.created_ipc;
    if (config_.keep_capabilities != 0 || made == nullptr || any_group(*made)) return;
    if (!check_enabled("capabilities")) return;
    static_cast<void>(drop_held_capabilities());
}

GuardianLoop::Children GuardianLoop::reap(int most) {
    for (int round = 0; round < most; ++round) {
        siginfo_t seen{};
        if (::waitid(P_ALL, 0, &seen, WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) != 0)
            return errno == ECHILD ? Children::none : Children::more;
        if (seen.si_pid == 0) return Children::quiet;
        reap_one(seen);
    }
    return Children::more;
}

void GuardianLoop::reap_one(const siginfo_t& seen) {
    // The agent's last events are forwarded before its end.
    if (seen.si_pid == command_ && is_end(seen.si_code)) receive_status();
    siginfo_t change{};
    const int wanted = same_class(seen.si_code);
    if (::waitid(P_PID, static_cast<id_t>(seen.si_pid), &change, wanted | WNOHANG) != 0 || change.si_pid == 0)
        return;
    if (is_end(change.si_code)) ++reaped_;
    if (change.si_pid == command_) command_changed(change.si_code, change.si_status);
}

void GuardianLoop::command_changed(int code, int status) {
    switch (code) {
        case CLD_TRAPPED:  // by PTRACE_TRACEME the command has made its parent, this process, its tracer
            return;
        case CLD_STOPPED:
            command_stopped_ = true;
            if (!failed_) send(Event::Kind::stopped, status);
            return;
        case CLD_CONTINUED:
            command_stopped_ = false;
            if (!failed_) send(Event::Kind::continued, 0);
            return;
        default:
            break;
    }
    command_reaped_ = true;
    command_stopped_ = false;
    channels_.status.reset();
    if (failed_) return;
    send(code == CLD_EXITED ? Event::Kind::exited : Event::Kind::signaled, status);
    command_ended();
}

void GuardianLoop::command_ended() {
    // Every remaining process descends from a child of ours. Without children, /proc need not be read.
    if (!any_child()) return send(Event::Kind::lingering, 0);
    if (config_.background == Background::wait) return tell_lingering();
    linger_ = sweep_ ? Clock::now() : Clock::now() + background_patience;
}

void GuardianLoop::tell_lingering() {
    send(Event::Kind::lingering, static_cast<int>(descendants(::getpid()).size()));
}

int GuardianLoop::timeout_ms() const {
    constexpr std::int64_t longest = 3'600'000;
    std::int64_t timeout = supervisor_is_to_run() ? wake_ms : -1;
    for (const auto& due : {deadline_, sweep_, linger_}) {
        if (!due) continue;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - Clock::now()).count();
        const std::int64_t wait = std::clamp<std::int64_t>(left, 0, longest);
        timeout = timeout < 0 ? wait : std::min(timeout, wait);
    }
    return static_cast<int>(timeout);
}

void GuardianLoop::keep_deadlines() {
    if (deadline_ && Clock::now() >= *deadline_) {
        deadline_.reset();
        expired_ = true;
        send(Event::Kind::expired, 0);
        signal_all({SIGTERM, SIGCONT});
        sweep_ = Clock::now() + config_.grace;
    }
    if (linger_ && Clock::now() >= *linger_) {
        linger_.reset();
        tell_lingering();
        signal_all({SIGTERM, SIGCONT});
        sweep_ = Clock::now() + background_grace;
    }
    if (!sweep_ || Clock::now() < *sweep_) return;
    end_all();
    // A process can be overlooked, because numbers wrapped while /proc was read. So the sweep is repeated.
    sweep_ = Clock::now() + background_grace;
}

/// A supervisor that stopped with its command goes on with it. After the deadline it writes records, report
/// and answer, whoever has stopped it.
bool GuardianLoop::supervisor_is_to_run() const {
    return expired_ || (supervisor_stops_ && !command_stopped_);
}

/// It may be about to stop when this looks, so the caller looks again.
void GuardianLoop::wake_supervisor() const {
    if (!supervisor_is_to_run() || ::getppid() != supervisor_ || !check_enabled("wakes-supervisor")) return;
    const auto supervisor = read_process(supervisor_);
    if (!supervisor || supervisor->state != 'T') return;
    if (!channels_.wake) {
        ::kill(supervisor_, SIGCONT);
    } else if (char byte = 0; ::write(channels_.wake.get(), &byte, 1) == 1) {
        static_cast<void>(::read(channels_.woken.get(), &byte, 1) == 1);
    }
}

/// Sends them by one kill(2) to all, which is over before the next fork (kernel/fork.c). A reading of /proc
/// can be slower than a tree forks.
void GuardianLoop::signal_all(std::initializer_list<int> signals) const {
    if (!channels_.wake) return signal_descendants(::getpid(), signals);
    for (const int signal : signals) ::kill(-1, signal);
}

/// A fork bomb shares the processors with this process evenly. Root may take a higher priority; other users
/// need patience, unless a control group or one signal ends all members at once.
void GuardianLoop::hurry() const {
    ::setpriority(PRIO_PROCESS, 0, -20);
    if (config_.created_ipc != nullptr) kill_created_groups(*config_.created_ipc);
    if (channels_.wake) signal_all({SIGKILL});
}

void GuardianLoop::end_all() {
    hurry();
    end_descendants(::getpid(), [this] { reap(reaped_while_ending); });
}

int GuardianLoop::finish() {
    rusage usage{};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    Event event;
    event.kind = Event::Kind::ended;
    event.pid = command_;
    event.cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    event.max_rss_kb = static_cast<std::uint64_t>(usage.ru_maxrss);
    event.bytes_written = static_cast<std::uint64_t>(usage.ru_oublock) * rusage_block_bytes;
    event.processes = reaped_;
    event.value = remove_directory();
    send(event);
    if (config_.await_dismissal) await_dismissal();
    return event.value;
}

int GuardianLoop::remove_directory() const {
    if (config_.keep_capabilities != 0) use_permitted_capabilities();
    if (!config_.denials.empty()) ::unlink(config_.denials.c_str());
    if (config_.temporary_directory.empty()) return 0;
    return remove_tree(config_.temporary_directory) ? 0 : 1;
}

void GuardianLoop::await_dismissal() {
    while (!dismissed_) {
        pollfd orders{channels_.orders.get(), POLLIN, 0};
        const bool awaited = supervisor_stops_ || expired_;
        if (::poll(&orders, 1, awaited ? wake_ms : -1) > 0) receive_order();
        wake_supervisor();
    }
}

void GuardianLoop::lost() {
    // The kernel closes a dead process's pipes before it tells the parent, so this is done before most shells
    // read on.
    if (config_.terminal.modes != nullptr && check_enabled("terminal-back"))
        put_back(config_.terminal.person, *config_.terminal.modes);
    hurry();
    for (;;) {
        end_descendants(::getpid(), [] { static_cast<void>(any_child_after_reaping()); });
        if (!any_child_after_reaping()) break;
        // A tracer may hold up a child's death; SIGCHLD reports its end.
        pollfd change{channels_.children.get(), POLLIN, 0};
        ::poll(&change, 1, look_again_ms);
        drain(channels_.children.get());
    }
    if (config_.keep_capabilities != 0) use_permitted_capabilities();
    for (const CreatedIpc* const made : {config_.created_ipc, config_.nested_ipc})
        if (!dismissed_ && made != nullptr && (made != config_.nested_ipc || check_enabled("nested-objects")))
            remove_created_ipc(*made);
    if (!dismissed_) {
        for (const std::string& path : config_.supervisor_files) ::unlink(path.c_str());
    }
    const int status = remove_directory();
    if (const std::string_view text = config_.lost_report != nullptr ? config_.lost_report->get() : "";
        !dismissed_ && config_.report != nullptr && !text.empty())
        write_report(*config_.report, text);
    ::_exit(status);
}

void GuardianLoop::send(Event::Kind kind, int value) {
    Event event;
    event.kind = kind;
    event.pid = command_;
    event.value = value;
    send(event);
}

void GuardianLoop::send(const Event& event) {
    // A supervisor that is gone also closes `orders`, which ends everything.
    while (::write(channels_.events.get(), &event, sizeof event) < 0 && errno == EINTR) {
    }
}

}  // namespace callgate::agent
