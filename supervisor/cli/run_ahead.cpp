// A run that `callgate exec --serve` starts before its job has come: it works out what it can, waits, and is
// then a `callgate run` like any other. It never runs what it was not told in that one message.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/starting.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/held_signals.hpp"
#include "supervisor/jobs/late_words.hpp"

namespace callgate::cli {

namespace {

/// What a job may say that changes nothing of what was prepared.
constexpr std::string_view late[] = {"env",    "timeout",   "idle-timeout", "grace",      "cpu",
                                     "memory", "processes", "disk",         "open-files", "file-size"};

struct Prepared {
    explicit Prepared(SessionConfig& config) : starting(config) {}

    Arguments arguments;
    MachineFacts facts;
    Starting starting;
    ChangeWatch watch;
    bool watched = false;  // everything was still true after it had been covered
};

bool is_told(int socket) {
    pollfd waiting{socket, POLLIN, 0};
    return ::poll(&waiting, 1, 0) != 0;
}

/// What has changed before is found by looking, once more; what changes later is told.
void watch_machine(Prepared& prepared) {
    prepared.starting.cover(prepared.facts, prepared.watch);
    prepared.watched = prepared.starting.still_true(prepared.arguments, prepared.facts);
}

/// Nothing where there will be no job, or where nothing is left that could run it. SIGTERM and the like end
/// who waits, as they end any process.
std::optional<jobs::LateWords> await_job(int socket, int untimely_end) {
    std::string message(jobs::longest_message, '\0');  // touched before it is needed
    std::array<pollfd, 2> waiting{{{socket, POLLIN, 0}, {untimely_end, POLLIN, 0}}};
    {
        const SignalsLetThrough anybody_may_end_it;
        while (::poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) {
        }
    }
    if (waiting[1].revents != 0) return std::nullopt;
    const ssize_t got = ::recv(socket, message.data(), message.size(), MSG_DONTWAIT);
    if (got <= 0) return std::nullopt;
    return jobs::unpack({message.data(), static_cast<std::size_t>(got)});
}

/// The agent makes itself ready while the machine is looked at again. False: another run must do it.
bool take(Prepared& prepared, const Arguments& job, const std::vector<std::string>& variables) {
    if (job.rest().empty() || !job.same_but(late, prepared.arguments)) return false;
    prepared.starting.set_limits(job);
    prepared.starting.set_environment(job, variables);
    prepared.starting.tell_command();
    return prepared.starting.still_true(job, prepared.facts, prepared.watched && prepared.watch.quiet());
}

}  // namespace

int run_ahead(std::vector<std::string> words) {
    SessionConfig config;
    hold_signals();
    const UniqueFd low(jobs::job_descriptor);
    const UniqueFd socket(::fcntl(low.get(), F_DUPFD_CLOEXEC, 3));
    if (!socket) throw Failure("run-ahead is what callgate exec starts; to run a command: callgate run");
    Prepared prepared(config);
    note_facts(&prepared.facts);
    prepared.arguments = parse(*find_verb("run"), std::move(words));
    prepared.starting.prepare(prepared.arguments);
    note_facts(nullptr);
    if (!prepared.facts.lasting()) return exit_failure;
    // A job that is there already waits for nothing else.
    if (!is_told(socket.get())) watch_machine(prepared);
    std::optional<jobs::LateWords> job = await_job(socket.get(), prepared.starting.untimely_end());
    if (!job) return 0;
    const Arguments arguments = parse(*find_verb("run"), std::move(job->words));
    config.command = arguments.rest();
    if (!take(prepared, arguments, job->variables)) return exit_failure;
    if (::send(socket.get(), &jobs::taken, sizeof jobs::taken, MSG_NOSIGNAL) != sizeof jobs::taken)
        return exit_failure;
    config.ended = [&socket](int status) {
        const char told[] = {jobs::ended, static_cast<char>(status)};
        static_cast<void>(::send(socket.get(), told, sizeof told, MSG_NOSIGNAL));
        ::sched_yield();  // the answer before our own end, which takes longer
    };
    prepared.starting.run();
}

}  // namespace callgate::cli
