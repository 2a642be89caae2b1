#include "supervisor/jobs/warm_run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "base/process/await_readable.hpp"
#include "supervisor/jobs/job_message.hpp"

namespace callgate::jobs {

namespace {

using boost::asio::posix::stream_descriptor;

/// After so many failures in a row no run is started until the next job.
constexpr int max_failures = 3;

struct SocketPair {
    UniqueFd server, run;
};

/// Connected sockets for messages that stay whole. Both are close-on-exec and at least `first_descriptor`.
std::optional<SocketPair> make_sockets() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
    const UniqueFd low[2] = {UniqueFd(ends[0]), UniqueFd(ends[1])};
    SocketPair made{UniqueFd(::fcntl(low[0].get(), F_DUPFD_CLOEXEC, first_descriptor)),
                    UniqueFd(::fcntl(low[1].get(), F_DUPFD_CLOEXEC, first_descriptor))};
    if (!made.server || !made.run) return std::nullopt;
    return made;
}

}  // namespace

struct WarmRun::Waiting {
    Waiting(boost::asio::io_context& loop, Inherited of_server, Child child, UniqueFd end)
        : inherited(std::move(of_server)),
          process(child.pid),
          ended(loop, child.pidfd.release()),
          socket(std::move(end)) {}

    Inherited inherited;  // of the server, before the run was started
    pid_t process;
    stream_descriptor ended;  // the pidfd
    UniqueFd socket;
};

void WarmRun::start() {
    failures_ = 0;
    if (!waiting_ && !over_) launch();
}

void WarmRun::launch() {
    Inherited inherited = Inherited::current();  // before the run inherits anything
    auto sockets = make_sockets();
    if (!sockets) return;
    const std::array descriptors{std::pair(sockets->run.get(), job_descriptor)};
    auto child = spawn(own_program, own_words(warm_word, {}), environment_, descriptors, signals_);
    if (!child) return;
    waiting_ =
        std::make_shared<Waiting>(loop_, std::move(inherited), std::move(*child), std::move(sockets->server));
    watch_end();
}

/// A run that dies while it waits is replaced.
void WarmRun::watch_end() {
    await_readable(waiting_->ended, [this, run = waiting_](const boost::system::error_code& error) {
        if (error || waiting_ != run) return;
        waiting_.reset();
        callgate::reap(run->process);
        if (!over_ && ++failures_ < max_failures) launch();
    });
}

std::optional<RunProcess> WarmRun::give(const CommandLine& line, const Connections& connections) {
    if (!waiting_) return std::nullopt;
    const std::optional<std::string> packed = pack({line.words, line.variables});
    if (!packed) return std::nullopt;
    if (!(waiting_->inherited == Inherited::current())) {
        stop();
        return std::nullopt;
    }
    std::optional<RunProcess> run = connect_run(connections, [&](auto descriptors) {
        return send_job(waiting_->socket.get(), *packed, descriptors).has_value();
    });
    if (!run) {
        stop();
        return std::nullopt;
    }
    run->child = {waiting_->process, UniqueFd(waiting_->ended.release())};
    run->progress = std::move(waiting_->socket);
    waiting_.reset();
    return run;
}

/// The run has begun nothing, so SIGKILL leaves nothing behind.
void WarmRun::stop() {
    if (!waiting_) return;
    const std::shared_ptr<Waiting> run = std::exchange(waiting_, nullptr);
    ::kill(run->process, SIGKILL);
    reap({run->process, UniqueFd(run->ended.release())});
}

void WarmRun::reap(Child child) {
    unreaped_.insert(child.pid);
    auto ended = std::make_shared<stream_descriptor>(loop_, child.pidfd.release());
    await_readable(*ended, [this, ended, pid = child.pid](const boost::system::error_code& error) {
        if (!error && unreaped_.erase(pid) > 0) callgate::reap(pid);
    });
}

void WarmRun::end() {
    over_ = true;
    stop();
    for (const pid_t child : std::exchange(unreaped_, {})) callgate::reap(child);
}

}  // namespace callgate::jobs
