// Runs that `callgate exec --serve` has before their jobs: a zygote (supervisor/jobs/zygote.hpp) works out
// what it can and forks them; each waits for its job, and is then a `callgate run` like any other. It never
// runs what it was not told in that one message.
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/run_setup.hpp"
#include "supervisor/cli/verbs.hpp"
#include "base/process/held_signals.hpp"
#include "supervisor/jobs/command_line.hpp"
#include "supervisor/jobs/job_message.hpp"
#include "supervisor/jobs/run_request.hpp"
#include "base/process/spawn.hpp"

namespace callgate::cli {

namespace {

/// What a job may say that changes nothing of what was prepared.
constexpr std::string_view late[] = {"env",    "timeout",   "idle-timeout", "grace",      "cpu",
                                     "memory", "processes", "disk",         "open-files", "file-size"};

/// What one process works out, and those that it forks have.
struct Prepared {
    explicit Prepared(SessionConfig& its_config) : config(its_config), starting(config) {}

    SessionConfig& config;
    Arguments arguments;
    HostSnapshot facts;
    RunSetup starting;
    std::optional<ChangeWatch> watch;  // once everything was still true after it had been covered
};

/// What has changed before is found by looking, once more; what changes later is told. False: rules that were
/// worked out now would be others, or that could not be told later.
bool watch_machine(Prepared& prepared) {
    prepared.watch.emplace();
    return prepared.starting.cover(prepared.facts, *prepared.watch) &&
           prepared.starting.still_true(prepared.arguments, prepared.facts);
}

/// Until one of these has something to read. SIGTERM and the like end who waits, as they end any process.
void await(std::span<pollfd> descriptors) {
    const SignalsLetThrough anybody_may_end_it;
    while (::poll(descriptors.data(), descriptors.size(), -1) < 0 && errno == EINTR) {
    }
}

/// Nothing where there will be no job, or where nothing is left that could run it.
std::optional<jobs::JobMessage> await_job(int socket, int untimely_end) {
    std::string message(jobs::max_message, '\0');  // touched before it is needed
    std::array<pollfd, 2> waiting{{{socket, POLLIN, 0}, {untimely_end, POLLIN, 0}}};
    await(waiting);
    if (waiting[1].revents != 0) return std::nullopt;
    const ssize_t got = ::recv(socket, message.data(), message.size(), MSG_DONTWAIT);
    if (got <= 0) return std::nullopt;
    return jobs::unpack({message.data(), static_cast<std::size_t>(got)});
}

/// The agent makes itself ready while the machine is looked at. False: another run must do it.
bool take(Prepared& prepared, const Arguments& job, const std::vector<std::string>& variables) {
    if (job.rest().empty() || !job.same_but(late, prepared.arguments)) return false;
    prepared.starting.set_limits(job);
    prepared.starting.set_environment(job, variables);
    prepared.starting.tell_command();
    return prepared.starting.still_true(job, prepared.facts, prepared.watch && prepared.watch->quiet());
}

/// fork(2), but the new process is the child of who started this one. The C library is not asked, so it is
/// told here what the main thread's number is.
pid_t fork_for_parent() {
    int* number = nullptr;
    clone_args wanted{};
    wanted.flags = CLONE_PARENT;
    if (::prctl(PR_GET_TID_ADDRESS, &number) == 0) {
        wanted.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        wanted.child_tid = reinterpret_cast<std::uintptr_t>(number);
    }
    return static_cast<pid_t>(::syscall(SYS_clone3, &wanted, sizeof wanted));
}

/// The new process leads a session of its own and goes with the server, as any run that it starts. Its own
/// end of the job's socket.
UniqueFd connect(jobs::Connected connected, pid_t server) {
    ::setsid();
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != server) throw Failure("the server is gone");
    UniqueFd job;
    for (auto& [here, there] : connected) {
        if (there == jobs::job_descriptor)
            job = std::move(here);
        else if (::dup2(here.get(), there) < 0)
            throw Failure(std::string("cannot connect the run: ") + std::strerror(errno));
    }
    return job;
}

int be_run(Prepared& prepared, const UniqueFd& socket) {
    const jobs::Born born{.process = ::getpid()};
    static_cast<void>(::send(socket.get(), &born, sizeof born, MSG_NOSIGNAL));
    prepared.starting.begin(prepared.facts);
    prepared.starting.make_ready();
    std::optional<jobs::JobMessage> job = await_job(socket.get(), prepared.starting.untimely_end());
    if (!job) return 0;
    const Arguments arguments = parse(*find_verb("run"), std::move(job->words));
    prepared.config.command = arguments.rest();
    if (!take(prepared, arguments, job->variables)) return exit_failure;
    if (::send(socket.get(), &jobs::taken, sizeof jobs::taken, MSG_NOSIGNAL) != sizeof jobs::taken)
        return exit_failure;
    prepared.config.begun = [&socket] {
        static_cast<void>(::send(socket.get(), &jobs::begun, sizeof jobs::begun, MSG_NOSIGNAL));
    };
    prepared.config.ended = [&socket](int status) {
        const char told[] = {jobs::ended, static_cast<char>(status)};
        static_cast<void>(::send(socket.get(), told, sizeof told, MSG_NOSIGNAL));
        ::sched_yield();  // the answer before our own end, which takes longer
    };
    prepared.starting.run();
}

/// Numbers that a run is connected by are nobody else's.
UniqueFd reserve_number(int number) { return UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, number)); }

}  // namespace

int run_ahead(std::vector<std::string> words) {
    SessionConfig config;
    hold_signals();
    const pid_t server = ::getppid();
    UniqueFd low(jobs::job_descriptor);
    UniqueFd requests(::fcntl(low.get(), F_DUPFD_CLOEXEC, first_descriptor));
    low.reset();
    if (!requests) throw Failure("run-ahead is what callgate exec starts; to run a command: callgate run");
    UniqueFd reserved = reserve_number(jobs::report_descriptor);
    Prepared prepared(config);
    prepared.arguments = parse(*find_verb("run"), std::move(words));
    prepared.starting.work_out(prepared.arguments, prepared.facts);
    if (!prepared.facts.lasting()) return exit_failure;
    // The first run is wanted at once, and looks at the machine itself when its job comes. Before each later
    // one nothing may have changed: it holds what lies at a path only from its own beginning on, and an
    // object that nobody held meanwhile may be another with the same number.
    while (true) {
        pollfd waiting{requests.get(), POLLIN, 0};
        await({&waiting, 1});
        std::optional<jobs::Connected> connected = jobs::receive_run_request(requests.get());
        if (!connected) return 0;
        if (prepared.watch && !prepared.watch->quiet()) return exit_failure;
        const pid_t child = fork_for_parent();
        if (child < 0) return exit_failure;
        if (child == 0) {
            requests.reset();
            static_cast<void>(reserved.release());  // connected by now
            return be_run(prepared, connect(std::move(*connected), server));
        }
        connected.reset();  // the run's alone
        if (!prepared.watch && !watch_machine(prepared)) return exit_failure;
    }
}

}  // namespace callgate::cli
