#include "agent/guardian.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "agent/confine.hpp"
#include "agent/guardian_loop.hpp"
#include "agent/handover.hpp"
#include "agent/launch_message.hpp"
#include "base/result.hpp"
#include "base/test_switch.hpp"
#include "base/write_all.hpp"

namespace callgate::agent {
namespace {

using boost::system::result;

struct Pipe {
    UniqueFd read, write;
};

// Keeps 0..2 free for the command's own descriptors.
result<UniqueFd> above_standard(int fd) {
    if (fd > 2) return UniqueFd(fd);
    const UniqueFd low(fd);
    UniqueFd high(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!high) return errno_code();
    return high;
}

result<Pipe> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno_code();
    auto read = above_standard(ends[0]);
    auto write = above_standard(ends[1]);
    if (!read) return read.error();
    if (!write) return write.error();
    return Pipe{std::move(*read), std::move(*write)};
}

struct Pipes {
    Pipe orders, events, go, status;
};

result<Pipes> make_pipes() {
    Pipes pipes;
    for (Pipe* each : {&pipes.orders, &pipes.events, &pipes.go, &pipes.status}) {
        auto made = make_pipe();
        if (!made) return made.error();
        *each = std::move(*made);
    }
    const int flags = ::fcntl(pipes.status.read.get(), F_GETFL);
    if (flags < 0 || ::fcntl(pipes.status.read.get(), F_SETFL, flags | O_NONBLOCK) != 0) return errno_code();
    return pipes;
}

// Blocks every signal until both sides of a fork have set themselves up.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, &before_);
    }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;
    ~SignalsBlocked() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

struct Failure {
    ConfineStep step = ConfineStep::process_group;
    int error = 0;
};

/// Ends the guardian before any command has begun.
[[noreturn]] void give_up(int events, const Failure& failure) {
    Event event;
    event.kind = Event::Kind::confine_failed;
    event.value = failure.error;
    event.detail = static_cast<std::int32_t>(failure.step);
    static_cast<void>(::write(events, &event, sizeof event) == 0);
    event = {};
    static_cast<void>(::write(events, &event, sizeof event) == 0);
    ::_exit(0);
}

UniqueFd open_child_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGCHLD);
    return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Closes all descriptors of the supervisor: the reader of a pipe would wait for ever while the guardian holds
// it.
int close_other_descriptors(const GuardianConfig& config, const GuardChannels& channels) {
    std::vector<int> kept{channels.orders.get(), channels.events.get(), channels.status.get(),
                          channels.children.get()};
    for (const UniqueFd* const end : {&channels.wake, &channels.woken})
        if (*end) kept.push_back(end->get());
    const int report = config.report != nullptr ? config.report->descriptor.get() : -1;
    if (report >= 0) kept.push_back(report);
    for (const int terminal : {config.terminal.slave, config.terminal.person})
        if (terminal >= 0) kept.push_back(terminal);
    std::sort(kept.begin(), kept.end());
    for (int fd = 0; fd <= 2; ++fd) {
        if (fd != report) ::close(fd);
    }
    if (const int error = fill_standard_descriptors()) return error;
    return close_all_but(kept);
}

// A session of its own keeps SIGKILL to callgate's group and the terminal's signals away from the guardian.
// The guardian also must not keep the command's group from being an orphaned one (setpgid(2)). Otherwise, if
// a command ends and leaves a stopped child, the kernel hangs up the whole group, and callgate's caller with
// it. A process that is not dumpable cannot be traced by other processes of the user.
int leave_session(const GuardianConfig& config) {
    if (config.terminal.slave < 0 && ::setsid() < 0) return errno;
    if (::prctl(PR_SET_NAME, "callgate-guard", 0UL, 0UL, 0UL) != 0) return errno;
    // Within a run the command's Landlock domain keeps it off. The run around would close all of its
    // processes to each other (calls/opaque.hpp).
    if (!config.nested && ::prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL) != 0) return errno;
    return 0;
}

int make_directory(const GuardianConfig& config) {
    if (config.temporary_directory.empty()) return 0;
    return ::mkdir(config.temporary_directory.c_str(), 0700) == 0 ? 0 : errno;
}

// Keeps only the capability for removing a control group: whether there will be one is not known yet. If the
// command keeps some, its processes may become other users'. They are ended, and what they leave is removed.
int drop_own_capabilities(const GuardianConfig& config) {
    if (config.keep_capabilities == all_capabilities || !check_enabled("capabilities")) return 0;
    if (config.keep_capabilities != 0) {
        const auto held = hold_only(for_ending | for_removing, for_ending);
        return held ? 0 : held.error().value();
    }
    const auto dropped = config.created_ipc != nullptr ? set_override_aside() : drop_held_capabilities();
    return dropped ? 0 : dropped.error().value();
}

void send_ready(int events) {
    Event event;
    event.kind = Event::Kind::ready;
    static_cast<void>(::write(events, &event, sizeof event) == 0);
}

// The directory is made last: from then on nothing that ends callgate ends the guardian too.
Failure become_guardian(const GuardianConfig& config, const GuardChannels& channels) {
    if (!channels.children) return {ConfineStep::descriptors, EMFILE};
    if (const int error = leave_session(config)) return {ConfineStep::process_group, error};
    if (const int error = make_directory(config)) return {ConfineStep::temporary_directory, error};
    if (const int error = drop_own_capabilities(config)) return {ConfineStep::capabilities, error};
    return {ConfineStep::descriptors, close_other_descriptors(config, channels)};
}

/// The guardian continues its supervisor by this pipe, because its own signals do not reach it. The kernel
/// sends SIGCONT for each byte, as the domain that is in force now may (fcntl(2), F_SETOWN).
result<Pipe> make_wake_pipe(pid_t supervisor) {
    auto pipe = make_pipe();
    if (!pipe) return pipe;
    const int end = pipe->read.get();
    if (::fcntl(end, F_SETOWN, supervisor) != 0 || ::fcntl(end, F_SETSIG, SIGCONT) != 0 ||
        ::fcntl(end, F_SETFL, O_ASYNC | O_NONBLOCK) != 0)
        return errno_code();
    return pipe;
}

/// Keeps the signals of this process and its descendants among them. Returns the wake pipe; an empty one
/// where the kernel does not hold that. kill(-1) must reach nobody else.
Pipe confine_signals(const GuardianConfig& config, pid_t supervisor) {
    const int abi = kernel_landlock_abi();
    if (config.nested || abi < 6 || !check_enabled("signal-domain")) return {};
    auto pipe = make_wake_pipe(supervisor);
    if (!pipe || !enter_signal_domain(abi)) return {};
    const bool holds = ::kill(supervisor, 0) != 0 && errno == EPERM;
    return holds ? std::move(*pipe) : Pipe{};
}

[[noreturn]] void guardian(const GuardianConfig& config, const AgentStart& start, Pipes pipes,
                           pid_t supervisor) {
    // An ignored SIGCHLD, inherited from callgate's caller, would make the kernel reap the command itself.
    ::signal(SIGCHLD, SIG_DFL);
    pid_t agent = -1;
    const int unled = config.terminal.slave < 0 ? 0 : lead_terminal(config.terminal.slave);
    if (unled != 0) give_up(pipes.events.write.get(), {ConfineStep::process_group, unled});
    Pipe wake = confine_signals(config, supervisor);
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL) == 0) agent = ::fork();
    if (agent == 0) confine_and_execute(start);
    if (agent < 0) give_up(pipes.events.write.get(), {ConfineStep::process_group, errno});
    GuardChannels channels{std::move(pipes.orders.read), std::move(pipes.events.write),
                           std::move(pipes.status.read), open_child_signals(),
                           std::move(wake.write),        std::move(wake.read)};
    const Failure failure = become_guardian(config, channels);
    if (failure.error != 0) {
        ::kill(agent, SIGKILL);
        ::waitpid(agent, nullptr, 0);
        if (failure.step != ConfineStep::temporary_directory && !config.temporary_directory.empty())
            ::rmdir(config.temporary_directory.c_str());
        give_up(channels.events.get(), failure);
    }
    send_ready(channels.events.get());
    // `pipes` still names ends that were closed by number; _exit runs no destructor, so none is closed twice.
    ::_exit(GuardianLoop(config, std::move(channels), agent, supervisor).run());
}

}  // namespace

result<Guardian> start_guardian(const GuardianConfig& config) {
    // If a number is free now, one of our own pipes could get it and be passed on in its place.
    for (const int fd : config.pass) {
        if (::fcntl(fd, F_GETFD) < 0) return errno_code();
    }
    auto pipes = make_pipes();
    if (!pipes) return pipes.error();
    HandoverSocket handover;
    if (!config.nested && pidfd_getfd_refused()) {
        auto made = make_handover_socket();
        if (!made) return made.error();
        handover = std::move(*made);
    }
    const AgentStart start(config, {pipes->status.write.get(), pipes->go.read.get(), handover.send.get()});
    Guardian started;
    const pid_t supervisor = ::getpid();
    {
        const SignalsBlocked blocked;
        started.pid = ::fork();
        if (started.pid == 0) guardian(config, start, std::move(*pipes), supervisor);
        if (started.pid < 0) return errno_code();
    }
    started.orders = std::move(pipes->orders.write);
    started.events = std::move(pipes->events.read);
    started.go = std::move(pipes->go.write);
    started.handover = std::move(handover.receive);
    started.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, started.pid, 0U)));
    if (!started.pidfd) return errno_code();  // closing the pipes ends both processes
    return started;
}

namespace {

result<void> send_to_agent(const Guardian& guardian, const std::vector<std::byte>& bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!write_all(guardian.go.get(), text) && errno != EPIPE) return errno_code();
    return {};
}

}  // namespace

result<void> send_ruleset(const Guardian& guardian, const RulesetParts* landlock) {
    return send_to_agent(guardian, pack_ruleset(landlock));
}

result<void> send_filter(const Guardian& guardian, std::span<const sock_filter> filter) {
    return send_to_agent(guardian, pack_filter(filter));
}

result<void> send_token(const Guardian& guardian, std::string_view token) {
    if (!write_all(guardian.go.get(), token) && errno != EPIPE) return errno_code();
    return {};
}

result<void> send_command(const Guardian& guardian, const CommandSpec& spec) {
    return send_to_agent(guardian, pack_command(spec));
}

}  // namespace callgate::agent
