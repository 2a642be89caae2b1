#include "agent/confine.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

#include "agent/handover.hpp"
#include "agent/launch_message.hpp"
#include "base/io_priority.hpp"
#include "base/test_switch.hpp"

namespace callgate::agent {
namespace {

constexpr unsigned long wait_killable = 1UL << 5U;  // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19
constexpr int status_not_executable = 126;
constexpr int status_not_found = 127;

void send_event(int pipe, Event::Kind kind, int value, int detail = 0) {
    Event event;
    event.kind = kind;
    event.pid = ::getpid();
    event.value = value;
    event.detail = detail;
    // The event is smaller than PIPE_BUF: it is written whole or not at all. Without a reader the handshake
    // ends this process.
    static_cast<void>(::write(pipe, &event, sizeof event) == 0);
}

int error_of(long returned) { return returned < 0 ? errno : 0; }
int error_of(const boost::system::result<void>& done) { return done ? 0 : done.error().value(); }

// The command's own descriptors must survive execve, although callgate may have marked them CLOEXEC.
int release_passed(const std::vector<int>& passed) {
    for (const int fd : passed) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags < 0 || ::fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC) < 0) return errno;
    }
    return 0;
}

int set_descriptors(const AgentStart& start) {
    if (check_enabled("descriptors")) {
        if (const int error = close_all_but(start.kept())) return error;
    }
    if (const int error = fill_standard_descriptors()) return error;
    return release_passed(start.config().pass);
}

int set_limit(int resource, const rlimit& value) {
    return error_of(::setrlimit(static_cast<__rlimit_resource_t>(resource), &value));
}

// A program may hold secrets, so it leaves no core file. A debugger inside the run may raise the limit again.
int forbid_core() {
    rlimit core{};
    if (::getrlimit(RLIMIT_CORE, &core) != 0) return errno;
    core.rlim_cur = 0;
    return set_limit(RLIMIT_CORE, core);
}

/// If memory is short, the kernel should end the tree before its neighbours: half of the scale is added to
/// the score (proc_pid_oom_score_adj(5)). A program that may write there can undo that, as it can undo any
/// inherited value. This waits for the command: a process that waits for its command uses little memory.
int raise_oom_score(const UniqueFd& score_file) {
    constexpr int added = 500, most = 1000;
    std::array<char, 16> text{};
    int error = error_of(::read(score_file.get(), text.data(), text.size() - 1));
    int score = 0;
    if (error == 0 && std::from_chars(text.begin(), text.end(), score).ec == std::errc()) {
        char* const end = std::to_chars(text.begin(), text.end(), std::min(score + added, most)).ptr;
        error =
            error_of(::write(score_file.get(), text.data(), static_cast<std::size_t>(end - text.begin())));
    }
    return error;
}

/// Joins a new session keyring, so that the kernel's own look-ups for the tree find no key of the caller's
/// session (keyrings(7)). The filter closes the calls for keys. The old keyring stays if none can be made: a
/// kernel without keyrings, a container that forbids them, or an exhausted quota of keys.
void leave_session_keyring() { ::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr); }

/// Settings that depend on nothing the supervisor still has to send. In a nested run the run around has set
/// them, and its filter would refuse the keyring.
int set_same_limits(UniqueFd& score_file, bool nested) {
    if (nested) return 0;
    if (const int error = forbid_core()) return error;
    leave_session_keyring();
    score_file.reset(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
    return score_file ? 0 : errno;
}

int set_limits(const LaunchMessage& command, UniqueFd score_file) {
    if (score_file)
        if (const int error = raise_oom_score(score_file)) return error;
    for (const Limit& limit : command.limits()) {
        if (const int error = set_limit(limit.resource, limit.value)) return error;
    }
    return 0;
}

int set_priority(const LaunchMessage& command) {
    if (command.nice() != 0) {
        errno = 0;
        if (::nice(command.nice()) == -1 && errno != 0) return errno;
    }
    if (command.io_priority() == nullptr) return 0;
    return error_of(::syscall(SYS_ioprio_set, io_priority_of_process, 0, *command.io_priority()));
}

int make_ruleset(const LaunchMessage& domain, UniqueFd& ruleset) {
    if (domain.landlock() == nullptr || !check_enabled("landlock")) return 0;
    auto made = domain.landlock()->make();
    if (!made) return made.error().value();
    ruleset = std::move(*made);
    return 0;
}

int enter_landlock(UniqueFd& ruleset) {
    if (!ruleset) return 0;
    if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0U) != 0) return errno;
    ruleset.reset();
    return 0;
}

/// Connects to the reserved name with the token: the supervisor of the run around then marks this very
/// process.
int enter_nested(int pipe) {
    constexpr std::string_view name = "callgate/enter/";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    char* const token = std::copy(name.begin(), name.end(), address.sun_path + 1);
    for (std::size_t have = 0; have < token_size;) {
        const ssize_t got = ::read(pipe, token + have, token_size - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return EPIPE;
        have += static_cast<std::size_t>(got);
    }
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return errno;
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size() + token_size);
    return error_of(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size));
}

// Returns the listener, or -1 without a filter; `error` is 0 or errno.
int install_filter(const LaunchMessage& told, bool nested, int& error) {
    error = 0;
    if (told.filter().empty()) return -1;
    sock_fprog program{};
    program.len = static_cast<unsigned short>(told.filter().size());
    program.filter = const_cast<sock_filter*>(told.filter().data());  // the kernel only reads it
    const unsigned long flags = nested ? 0UL : SECCOMP_FILTER_FLAG_NEW_LISTENER | wait_killable;
    const long listener = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    error = error_of(listener);
    return nested ? -1 : static_cast<int>(listener);
}

bool wait_for_go(int pipe) {
    char byte = 0;
    for (;;) {
        const ssize_t got = ::read(pipe, &byte, 1);
        if (got < 0 && errno == EINTR) continue;
        return got == 1;
    }
}

[[noreturn]] void give_up(const AgentStart& start, ConfineStep step, int error) {
    send_event(start.channels().status, Event::Kind::confine_failed, error, static_cast<int>(step));
    ::_exit(125);
}

// Tries each candidate. Returns only on failure, with execvpe's choice of errno.
int execute(const LaunchMessage& command) {
    int result = ENOENT;
    char** const arguments = command.arguments();
    for (char* const path : command.executables()) {
        ::execve(path, arguments, command.environment());
        if (errno == ENOEXEC) {
            // execvpe gives a text without "#!" to the shell, and so does this.
            char shell[] = "/bin/sh";
            arguments[-1] = shell;
            char* const name = std::exchange(arguments[0], path);
            ::execve(shell, arguments - 1, command.environment());
            const int error = errno;
            arguments[0] = name;
            return error;
        }
        if (errno == EACCES)
            result = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return errno;
    }
    return result;
}

}  // namespace

AgentStart::AgentStart(const GuardianConfig& config, AgentChannels channels)
    : config_(config), channels_(channels), kept_(config.pass) {
    kept_.push_back(channels.status);
    kept_.push_back(channels.go);
    if (channels.handover >= 0) kept_.push_back(channels.handover);
    std::sort(kept_.begin(), kept_.end());
}

int close_all_but(const std::vector<int>& kept) {
    unsigned first = 3;
    for (const int fd : kept) {
        const auto number = static_cast<unsigned>(fd);
        if (number < first) continue;
        if (number > first && ::syscall(SYS_close_range, first, number - 1, 0U) != 0) return errno;
        first = number + 1;
    }
    return error_of(::syscall(SYS_close_range, first, ~0U, 0U));
}

int fill_standard_descriptors() {
    for (int fd = 0; fd <= 2; ++fd) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) continue;
        const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0) return errno;
        if (null == fd) {
            if (::fcntl(fd, F_SETFD, 0) < 0) return errno;
            continue;
        }
        if (::dup2(null, fd) < 0) return errno;
        ::close(null);
    }
    return 0;
}

void confine_and_execute(const AgentStart& start) {
    const GuardianConfig& config = start.config();
    const AgentChannels channels = start.channels();
    const auto require = [&](ConfineStep step, int error) {
        if (error != 0) give_up(start, step, error);
    };
    config.signals.restore_dispositions();
    require(ConfineStep::process_group, take_terminal(config.terminal));
    config.signals.restore_mask();
    // Capabilities go first: everything after this uses the command's own rights.
    const CapabilitySet kept = config.keep_capabilities;
    if (kept == 0 && check_enabled("capabilities"))
        require(ConfineStep::capabilities, error_of(drop_capabilities()));
    if (kept != 0 && kept != all_capabilities && check_enabled("kept-capabilities"))
        require(ConfineStep::capabilities, error_of(keep_capabilities(kept)));
    if (config.working_directory)
        require(ConfineStep::working_directory, error_of(::fchdir(config.working_directory.get())));
    require(ConfineStep::descriptors, set_descriptors(start));
    // These steps need nothing from the supervisor, which still compiles the policy.
    UniqueFd score_file;
    require(ConfineStep::limits, set_same_limits(score_file, config.nested));
    require(ConfineStep::no_new_privs, error_of(::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL)));

    LaunchMessage domain, filter, command;
    require(ConfineStep::handshake, domain.receive(channels.go));
    UniqueFd ruleset;
    require(ConfineStep::ruleset, make_ruleset(domain, ruleset));
    require(ConfineStep::handshake, filter.receive(channels.go));
    if (config.nested) require(ConfineStep::nested, enter_nested(channels.go));
    require(ConfineStep::landlock, enter_landlock(ruleset));
    Courier courier;
    if (channels.handover >= 0) require(ConfineStep::handshake, courier.start(channels.handover));
    int error = 0;
    const int listener = install_filter(filter, config.nested, error);
    require(ConfineStep::filter, error);
    if (channels.handover >= 0) require(ConfineStep::handshake, courier.carry(listener));

    // From here on, no call may be one that the filter notifies: the supervisor has no listener yet. Limits
    // and priority concern the caller itself, which the filter never notifies
    // (supervisor/enforce/filter_spec).
    require(ConfineStep::handshake, command.receive(channels.go));
    require(ConfineStep::limits, set_limits(command, std::move(score_file)));
    require(ConfineStep::priority, set_priority(command));
    send_event(channels.status, Event::Kind::confined, listener);
    if (!wait_for_go(channels.go)) give_up(start, ConfineStep::handshake, EPIPE);
    // A copy of the listener here would keep calls waiting for ever after the supervisor's death.
    if (listener >= 0) ::close(listener);
    ::close(channels.go);
    if (channels.handover >= 0) ::close(channels.handover);
    error = execute(command);
    send_event(channels.status, Event::Kind::exec_failed, error);
    ::_exit(error == ENOENT || error == ENOTDIR ? status_not_found : status_not_executable);
}

}  // namespace callgate::agent
