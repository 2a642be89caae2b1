// `callgate run` for a job that is still to come: `callgate exec --serve` starts it ahead of the job
// (supervisor/jobs/warm_run.hpp). It waits for one message, and is then a `callgate run` with the words,
// variables and descriptors of that message.
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/process/spawn.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/jobs/job_message.hpp"

namespace callgate::cli {

namespace {

/// Closes the descriptors that were received, once they are the standard ones.
void connect(jobs::Connected&& received) {
    const jobs::Connected connected = std::move(received);
    for (const auto& [here, in_run] : connected)
        if (::dup2(here.get(), in_run) < 0)
            throw Failure(std::string("cannot connect the run: ") + std::strerror(errno));
}

/// A new run would have found the job's variables in its environment.
void add_variables(const std::vector<std::string>& variables) {
    for (const std::string& one : variables) {
        const std::size_t end = one.find('=');
        if (::setenv(one.substr(0, end).c_str(), one.c_str() + end + 1, 1) != 0)
            throw Failure(std::string("cannot set a variable of the job: ") + std::strerror(errno));
    }
}

}  // namespace

int run_warm() {
    UniqueFd low(jobs::job_descriptor);
    const UniqueFd socket(::fcntl(low.get(), F_DUPFD_CLOEXEC, first_descriptor));
    low.reset();
    auto received = jobs::receive_job(socket.get());
    if (!received && received.error() == errno_code(ECONNRESET)) return 0;  // the server has ended
    if (!received)
        throw Failure("run-warm is what callgate exec starts (" + received.error().message() +
                      "); to run a command: callgate run");
    connect(std::move(received->connected));
    add_variables(received->job.variables);
    const auto send = [&socket](const char* message, std::size_t size) {
        static_cast<void>(::send(socket.get(), message, size, MSG_NOSIGNAL));
    };
    const RunNotices notices{.started = [&send] { send(&jobs::started, 1); },
                             .exited =
                                 [&send](int status) {
                                     const char message[] = {jobs::exited, static_cast<char>(status)};
                                     send(message, sizeof message);
                                     ::sched_yield();  // the server answers before this process exits
                                 }};
    return run_with(parse(*find_verb("run"), std::move(received->job.words)), notices);
}

}  // namespace callgate::cli
