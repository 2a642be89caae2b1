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
#include "agent/guard.hpp"
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

// Never in 0..2, where the command's own descriptors go.
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

// Every signal waits while both sides of a fork are not what they should be yet.
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

/// Ends the guardian where no command has begun.
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

UniqueFd child_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGCHLD);
    return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Nothing of the supervisor's stays open here: a pipe held by the guardian would never end for its reader.
int let_go_of_descriptors(const GuardianConfig& guarding, const GuardChannels& channels) {
    std::vector<int> kept{channels.orders.get(), channels.events.get(), channels.status.get(),
                          channels.children.get()};
    const int report = guarding.report != nullptr ? guarding.report->descriptor.get() : -1;
    if (report >= 0) kept.push_back(report);
    if (guarding.terminal.slave >= 0) kept.push_back(guarding.terminal.slave);
    std::sort(kept.begin(), kept.end());
    for (int fd = 0; fd <= 2; ++fd) {
        if (fd != report) ::close(fd);
    }
    if (const int error = fill_standard_descriptors()) return error;
    return close_all_but(kept);
}

// In a session of its own SIGKILL to callgate's group and the terminal's signals leave it. And it is no
// parent that keeps the command's group from being an orphaned one (setpgid(2)): else the end of a command
// that leaves a stopped child would make the kernel hang up the whole group, callgate's own caller with it.
// Not dumpable, nobody of the same user traces it.
int stand_apart(const GuardianConfig& guarding) {
    if (guarding.terminal.slave < 0 && ::setsid() < 0) return errno;
    if (::prctl(PR_SET_NAME, "callgate-guard", 0UL, 0UL, 0UL) != 0) return errno;
    if (::prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL) != 0) return errno;
    return 0;
}

int make_directory(const GuardianConfig& guarding) {
    if (guarding.temporary_directory.empty()) return 0;
    return ::mkdir(guarding.temporary_directory.c_str(), 0700) == 0 ? 0 : errno;
}

// All but what removing a control group may take: whether there will be one is not known yet.
int drop_own_capabilities(const GuardianConfig& guarding) {
    if (guarding.keep_capabilities || !check_enabled("capabilities")) return 0;
    const auto dropped = guarding.created_ipc != nullptr ? set_override_aside() : drop_held_capabilities();
    return dropped ? 0 : dropped.error().value();
}

void tell_ready(int events) {
    Event event;
    event.kind = Event::Kind::ready;
    static_cast<void>(::write(events, &event, sizeof event) == 0);
}

// The directory comes only when nothing that ends callgate ends the guardian, too.
Failure become_guardian(const GuardianConfig& guarding, const GuardChannels& channels) {
    if (!channels.children) return {ConfineStep::descriptors, EMFILE};
    if (const int error = stand_apart(guarding)) return {ConfineStep::process_group, error};
    if (const int error = make_directory(guarding)) return {ConfineStep::temporary_directory, error};
    if (const int error = drop_own_capabilities(guarding)) return {ConfineStep::capabilities, error};
    return {ConfineStep::descriptors, let_go_of_descriptors(guarding, channels)};
}

[[noreturn]] void guardian(const GuardianConfig& guarding, const AgentStart& start, Pipes pipes) {
    // An ignored SIGCHLD, inherited from callgate's caller, would reap the command behind our back.
    ::signal(SIGCHLD, SIG_DFL);
    pid_t agent = -1;
    const int unled = guarding.terminal.slave < 0 ? 0 : lead_terminal(guarding.terminal.slave);
    if (unled != 0) give_up(pipes.events.write.get(), {ConfineStep::process_group, unled});
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL) == 0) agent = ::fork();
    if (agent == 0) confine_and_execute(start);
    if (agent < 0) give_up(pipes.events.write.get(), {ConfineStep::process_group, errno});
    GuardChannels channels{std::move(pipes.orders.read), std::move(pipes.events.write),
                           std::move(pipes.status.read), child_signals()};
    const Failure failure = become_guardian(guarding, channels);
    if (failure.error != 0) {
        ::kill(agent, SIGKILL);
        ::waitpid(agent, nullptr, 0);
        if (failure.step != ConfineStep::temporary_directory && !guarding.temporary_directory.empty())
            ::rmdir(guarding.temporary_directory.c_str());
        give_up(channels.events.get(), failure);
    }
    tell_ready(channels.events.get());
    // `pipes` still names the ends that were closed by number: the process ends here, so no destructor runs.
    ::_exit(Guard(guarding, std::move(channels), agent).run());
}

}  // namespace

result<Guardian> start_guardian(const GuardianConfig& guarding) {
    // A number that is free now could be taken by one of our own pipes and passed on in its place.
    for (const int fd : guarding.pass) {
        if (::fcntl(fd, F_GETFD) < 0) return errno_code();
    }
    auto pipes = make_pipes();
    if (!pipes) return pipes.error();
    HandoverSocket handover;
    if (taking_descriptors_is_refused()) {
        auto made = make_handover_socket();
        if (!made) return made.error();
        handover = std::move(*made);
    }
    const AgentStart start(guarding, {pipes->status.write.get(), pipes->go.read.get(), handover.send.get()});
    Guardian started;
    {
        const SignalsBlocked blocked;
        started.pid = ::fork();
        if (started.pid == 0) guardian(guarding, start, std::move(*pipes));
        if (started.pid < 0) return errno_code();
    }
    started.orders = std::move(pipes->orders.write);
    started.events = std::move(pipes->events.read);
    started.go = std::move(pipes->go.write);
    started.handover = std::move(handover.receive);
    started.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, started.pid, 0U)));
    if (!started.pidfd) return errno_code();  // the closed pipes end both
    return started;
}

namespace {

result<void> tell_agent(const Guardian& guardian, const std::vector<std::byte>& bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!write_all(guardian.go.get(), text) && errno != EPIPE) return errno_code();
    return {};
}

}  // namespace

result<void> send_ruleset(const Guardian& guardian, const RulesetParts* landlock) {
    return tell_agent(guardian, pack_ruleset(landlock));
}

result<void> send_filter(const Guardian& guardian, std::span<const sock_filter> filter) {
    return tell_agent(guardian, pack_filter(filter));
}

result<void> send_command(const Guardian& guardian, const CommandSpec& arming) {
    return tell_agent(guardian, pack_blueprint(arming));
}

}  // namespace callgate::agent
