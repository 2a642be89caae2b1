// `callgate agent` supervises containers: their runtime hands over the listener of each.
//
// It listens on a unix socket, the `listenerPath` of the profiles that it prints. For each connection of a
// trusted peer it forks a process, which reads the state. That of a new container forks the supervisor, which
// chooses rules by annotation, opens the log and enters the container (container/). The process outside waits
// for it, removes its name, and says if it was killed. A process that a runtime adds to a container goes to
// the supervisor that is there (container/joining.hpp). The agent itself reads nothing from a connection, and
// holds no listener. Its end leaves the supervisors of running containers as they are. New containers then do
// not start.
//
// Rules come from a directory that nobody but the agent's user may write, by plain names. Whatever is wrong
// with a container, its supervisor ends with a line. The listener closes with it, and calls fail with ENOSYS.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/test_switch.hpp"
#include "rules/model/limits.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/run_setup.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/container/container_run.hpp"
#include "supervisor/container/joining.hpp"
#include "supervisor/container/oci_profile.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/host/name_lock_file.hpp"
#include "supervisor/run/setup_error.hpp"

namespace callgate::cli {

namespace {

using namespace container;

constexpr std::string_view default_socket = "/run/callgate/agent.sock";
constexpr std::string_view default_rules = "/etc/callgate/containers";
constexpr std::size_t max_rules = 1 << 20;
constexpr std::chrono::seconds patience{10};

struct Agent {
    std::string socket, rules, logs;
    std::string runtime;  // with the sockets of questions; "": nobody answers
    std::chrono::milliseconds ask_timeout{60'000};
    [[nodiscard]] bool asks() const { return !runtime.empty(); }
    [[nodiscard]] std::string meetings() const { return socket + ".d"; }
};

std::string path_of_option(const Arguments& arguments, std::string_view name, std::string otherwise) {
    const std::string path = arguments.value(name).value_or(std::move(otherwise));
    if (!path.starts_with('/'))
        throw Failure(arguments.origin(name) + " " + path + ": expected an absolute path");
    return path;
}

/// Every directory above counts: whoever may write one could give the name to another file. In a sticky one
/// nobody can but the owner.
void require_ours(const std::string& path) {
    if (canonical(path) != path) throw Failure(path + ": leads through a link; name the place itself");
    for (std::string at = path; !at.empty(); at = at.substr(0, at.rfind('/'))) {
        struct stat status {};
        if (::lstat(at.c_str(), &status) != 0) throw Failure(at + ": " + std::strerror(errno));
        const bool owned = status.st_uid == 0 || status.st_uid == ::geteuid();
        const bool shared = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
        const bool sticky = at != path && (status.st_mode & S_ISVTX) != 0;
        if ((!owned || (shared && !sticky)) && check_enabled("container-rules-owner"))
            throw Failure(at +
                          ": others may write there; the agent reads rules and listens where its user alone "
                          "writes");
    }
}

std::string read_rules(const Agent& agent, const std::string& name) {
    if (name.empty()) throw Failure("it has no annotation callgate.rules, which names its rules");
    if (!is_plain_name(name)) throw Failure(name + ": this is no plain name of rules");
    const std::string path = agent.rules + "/" + name + ".json";
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 && errno == ENOENT)
        throw Failure("there are no rules " + name + " in " + agent.rules);
    require_ours(path);
    const Expected<std::string> text = read_regular_file(path, max_rules);
    if (!text) throw Failure(path + ": " + text.error().text);
    return *text;
}

ContainerRules load_rules_of(const Agent& agent, const std::string& text, const std::string& name,
                             bool in_place) {
    Expected<ContainerRules> rules = load_container_rules(text, name + ".json", in_place, agent.asks());
    if (!rules) throw Failure(rules.error().text);
    return std::move(*rules);
}

std::unique_ptr<audit::Log> open_log_of(const Agent& agent, const std::string& run) {
    audit::Log::Options options;
    options.run = run;
    options.segment_bytes = ~std::uint64_t{0};  // a further one could not be made from within the container
    auto log = audit::Log::in_directory(agent.logs, std::move(options));
    if (!log) throw Failure("no log can be kept in " + agent.logs + ": " + log.error().message());
    return std::move(*log);
}

/// The process outside makes this for a supervisor. Its names go with it.
struct Outside {
    std::string run;
    std::string name, runtime;  // of the meeting; the directory of the socket, or ""
    UniqueFd meeting{};
    Asking asking{};

    ~Outside() {
        if (meeting) ::unlink(name.c_str());
        if (!runtime.empty()) approval::remove_run_socket(runtime, run);
    }
};

/// A container's id is in the name of its run, so that logs and questions name the container.
std::string run_name_of(const std::string& id) {
    constexpr std::size_t shown = 12;  // as engines show it
    return is_plain_name(id) ? id.substr(0, shown) + '-' + random_run_name() : random_run_name();
}

/// The sentence with which the container is refused or ended; "" if nothing has to be said.
std::string supervise_container(const Agent& agent, ProcessState& state, Outside& outside) {
    const std::string text = read_rules(agent, state.rules);
    const Expected<Place> place = Place::of(state.process, state.first);
    if (!place) throw Failure(place.error().text);
    const std::unique_ptr<audit::Log> log = open_log_of(agent, outside.run);
    const Expected<UniqueFd> name_lock = open_name_lock_file(agent.logs);
    if (!name_lock) throw Failure(name_lock.error().text);
    if (const Expected<void> entered = place->enter(); !entered) throw Failure(entered.error().text);
    const ContainerRules rules = load_rules_of(agent, text, state.rules, true);
    if (rules.plan.notify_only_execute && place->has_own_users())
        throw Failure("the rules " + state.rules +
                      " decide what may be executed, and it has a user namespace: its runtime cannot be held "
                      "by ptrace from within; allow execute everywhere (\"/**\")");
    if (oci_profile(filter_of(rules), state.rules, agent.socket).digest != state.metadata &&
        check_enabled("container-profile"))
        throw Failure("its seccomp profile is not that of the rules " + state.rules +
                      ": print it anew with callgate agent --seccomp-profile " + state.rules);
    UniqueFd listener = std::move(state.listener);
    return supervise({.state = state,
                      .place = *place,
                      .rules = rules,
                      .run = outside.run,
                      .meeting = outside.meeting,
                      .log = log.get(),
                      .asking = agent.asks() ? &outside.asking : nullptr,
                      .name_lock = name_lock->get()},
                     std::move(listener));
}

/// A socket that an earlier agent left is replaced, and one that is answered is not.
UniqueFd listen_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) throw Failure(path + ": the path is too long for a socket");
    path.copy(address.sun_path, path.size());
    const auto* const named = reinterpret_cast<const sockaddr*>(&address);
    const auto fail = [&](const char* what) -> Failure {
        return Failure(path + ": " + what + ": " + std::strerror(errno));
    };
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) throw fail("no socket can be made");
    if (::connect(socket.get(), named, sizeof address) == 0)
        throw Failure(path + ": another agent listens there");
    struct stat there {};
    if (errno == ECONNREFUSED && ::lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode))
        ::unlink(path.c_str());
    const mode_t before = ::umask(0177);
    const bool bound = ::bind(socket.get(), named, sizeof address) == 0;
    ::umask(before);
    if (!bound || ::listen(socket.get(), SOMAXCONN) != 0) throw fail("cannot listen");
    return socket;
}

/// Ends the process.
[[noreturn]] void end(int status, const std::string& who, const std::string& line) {
    if (!line.empty()) say(who + line);
    ::_exit(status);
}

[[noreturn]] void supervise_new(const Agent& agent, ProcessState& state, Outside& outside,
                                const std::string& who) {
    try {
        end(0, who, supervise_container(agent, state, outside));
    } catch (const std::exception& failure) {
        end(exit_failure, who, failure.what() + std::string("; its calls fail"));
    }
}

/// In a process of its own.
void serve(const Agent& agent, UniqueFd connection, std::string& who) {
    Expected<ProcessState> state = receive_process_state(connection.get(), patience);
    connection.reset();
    if (!state) throw Failure(state.error().text);
    who = "container " + state->id + ": ";
    if (state->added()) {
        if (const auto handed = hand_to_supervisor(agent.meetings(), *state, patience); !handed)
            throw Failure(handed.error().text);
        return;
    }
    Outside outside{run_name_of(state->id), agent.meetings() + "/" + meeting_name(*state), agent.runtime};
    if (agent.asks()) {
        auto socket = approval::open_run_socket(agent.runtime, outside.run);
        if (!socket)
            throw Failure("no socket can be made in " + agent.runtime + ": " + socket.error().message());
        outside.asking = {std::move(*socket), agent.ask_timeout};
    }
    outside.meeting = listen_at(outside.name);
    const pid_t supervisor = ::fork();
    if (supervisor == 0) supervise_new(agent, *state, outside, who);
    const int error = errno;
    state->listener.reset();
    outside.asking.socket.listening.reset();
    int status = 0;
    if (supervisor > 0) ::waitpid(supervisor, &status, 0);
    if (supervisor < 0) throw Failure(std::string("no process can be made: ") + std::strerror(error));
    if (WIFSIGNALED(status))
        throw Failure("its supervisor was ended by signal " + std::to_string(WTERMSIG(status)));
}

[[noreturn]] void accept_containers(const Agent& agent, const UniqueFd& socket) {
    struct sigaction reaped {};
    reaped.sa_handler = SIG_IGN;  // NOLINT(*-union-access)
    reaped.sa_flags = SA_NOCLDWAIT;
    ::sigaction(SIGCHLD, &reaped, nullptr);
    for (;;) {
        UniqueFd connection(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            throw Failure(agent.socket + ": cannot accept: " + std::strerror(errno));
        }
        if (!is_trusted_peer(connection.get())) {
            say("a connection of another user was refused");
            continue;
        }
        const pid_t child = ::fork();
        if (child == 0) {
            ::close(socket.get());
            ::setsid();
            ::signal(SIGCHLD, SIG_DFL);  // else what is held by ptrace would be reaped without its parent
            ::prctl(PR_SET_NAME, "callgate");
            std::string who;
            try {
                serve(agent, std::move(connection), who);
            } catch (const std::exception& failure) {
                end(exit_failure, who, failure.what() + std::string("; its calls fail"));
            }
            ::_exit(0);
        }
        if (child < 0) say(std::string("no process can be made for a container: ") + std::strerror(errno));
    }
}

void read_ask(const Arguments& arguments, Agent& agent) {
    if (const auto value = arguments.value("ask-timeout")) {
        const auto timeout = rules::parse_duration(*value);
        if (!timeout || timeout->count() <= 0)
            throw Failure(arguments.origin("ask-timeout") + " " + *value +
                          ": expected a duration above 0 such as 90, 1500ms, 30s, 2m or 1h");
        agent.ask_timeout = *timeout;
    }
    const std::string who = arguments.value("ask").value_or("never");
    if (who == "never") return;
    if (who != "socket")
        throw Failure(arguments.origin("ask") + " " + who +
                      " is for callgate run; here: socket (and callgate approve) or never");
    agent.runtime = find_places().runtime;
    if (const auto made = approval::make_runtime_directory(agent.runtime); !made)
        throw Failure("cannot use " + agent.runtime + ": " + made.error().message());
}

}  // namespace

int agent(const Arguments& arguments) {
    Agent agent;
    agent.socket = path_of_option(arguments, "listen", std::string(default_socket));
    agent.rules = path_of_option(arguments, "rules-dir", std::string(default_rules));
    read_ask(arguments, agent);
    if (const auto name = arguments.value("seccomp-profile")) {
        const ContainerRules rules = load_rules_of(agent, read_rules(agent, *name), *name, false);
        print(oci_profile(filter_of(rules), *name, agent.socket).text);
        return 0;
    }
    if (::geteuid() != 0)
        throw Failure("the agent enters containers, which root alone can: start it as root of the host");
    agent.logs = path_of_option(arguments, "logs", find_places().state);
    require_ours(agent.rules);
    // A stranger who can make a socket of this name is handed containers.
    require_ours(agent.socket.substr(0, std::max<std::size_t>(agent.socket.rfind('/'), 1)));
    make_state_directory(agent.logs, "; give --logs DIR");
    if (::mkdir(agent.meetings().c_str(), 0700) != 0 && errno != EEXIST)
        throw Failure(agent.meetings() + ": " + std::strerror(errno));
    require_ours(agent.meetings());
    remove_dead_names(agent.meetings());
    ::prctl(PR_SET_DUMPABLE, 0);
    ::prctl(PR_SET_NAME, "callgate");
    const UniqueFd socket = listen_at(agent.socket);
    say("the agent listens on " + agent.socket);
    accept_containers(agent, socket);
}

}  // namespace callgate::cli
