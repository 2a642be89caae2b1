#include "supervisor/jobs/ahead.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "supervisor/jobs/late_words.hpp"

namespace callgate::jobs {

namespace {

using boost::asio::posix::stream_descriptor;

/// So many runs in a row may end without having had a job: whatever ends them would end the next, too.
constexpr int most_untaken = 3;
/// Something else may have changed, once: after so many jobs it is tried again.
constexpr int most_late = 32;

struct Sockets {
    UniqueFd ours, theirs;
};

std::optional<Sockets> make_sockets() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
    const UniqueFd low[2] = {UniqueFd(ends[0]), UniqueFd(ends[1])};
    Sockets made{UniqueFd(::fcntl(low[0].get(), F_DUPFD_CLOEXEC, first_descriptor)),
                 UniqueFd(::fcntl(low[1].get(), F_DUPFD_CLOEXEC, first_descriptor))};
    if (!made.ours || !made.theirs) return std::nullopt;
    return made;
}

}  // namespace

struct Ahead::Waiting {
    Waiting(boost::asio::io_context& loop, Kind asked, Inherited then, RunProcess started, UniqueFd end)
        : kind(std::move(asked)),
          inherited(std::move(then)),
          run(std::move(started)),
          socket(loop, end.release()) {}

    Kind kind;
    Inherited inherited;
    RunProcess run;
    stream_descriptor socket;
};

std::optional<Ahead::Kind> Ahead::kind(const Job& job, const CommandLine& line) {
    if (!job.script.empty() || !line.rules.empty()) return std::nullopt;
    return Kind{line.frame, !job.input.empty(), job.merge_stderr};
}

bool Ahead::give(const Kind& kind, const CommandLine& line,
                 std::function<void(std::optional<RunProcess>)> answer) {
    if (!waiting_) return false;
    missed_ = !(waiting_->kind == kind);
    if (missed_) return false;
    const std::optional<std::string> message = pack({line.words, line.variables});
    if (!message) return false;
    if (!(waiting_->inherited == Inherited::current()) ||
        ::send(waiting_->socket.native_handle(), message->data(), message->size(),
               MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        let_go();
        return false;
    }
    untaken_ = 0;
    const std::shared_ptr<Waiting> told = std::move(waiting_);
    told->socket.cancel();  // nobody watches for its end any more
    told->socket.async_wait(stream_descriptor::wait_read, [this, told, answer = std::move(answer)](
                                                              const boost::system::error_code&) {
        char said = 0;
        const bool is_taken =
            ::recv(told->socket.native_handle(), &said, 1, MSG_DONTWAIT) == 1 && said == taken;
        if (is_taken) {
            if (late_ > 0) --late_;
            told->run.news.reset(told->socket.release());
            return answer(std::move(told->run));
        }
        late_ = most_late;
        reap(std::move(told->run.child));
        answer(std::nullopt);
    });
    return true;
}

/// Two in a row are alike, or nothing speaks against it yet.
void Ahead::begun(const Kind& kind) {
    likely_ = last_ == kind || !missed_;
    last_ = kind;
    if (late_ == 0) expect(kind);
}

void Ahead::ended(const Kind& kind) {
    if (late_ > 0 && last_ == kind) expect(kind);
}

void Ahead::expect(const Kind& kind) {
    if (over_ || !likely_ || (waiting_ && waiting_->kind == kind)) return;
    let_go();
    untaken_ = 0;
    start(kind);
}

void Ahead::start(const Kind& kind) {
    const Inherited inherited = Inherited::current();  // before it inherits anything
    std::optional<Sockets> sockets = make_sockets();
    if (!sockets) return;  // the next job says that there are too few descriptors, if it needs them
    auto made = start_run(ahead_word, kind.frame, environment_,
                          {.input = kind.input, .merged = kind.merged, .job = &sockets->theirs}, signals_);
    auto* const run = std::get_if<RunProcess>(&made);
    if (run == nullptr) return;
    waiting_ = std::make_shared<Waiting>(loop_, kind, inherited, std::move(*run), std::move(sockets->ours));
    watch(waiting_);
}

/// It says nothing before it is told something: what comes is its end.
void Ahead::watch(const std::shared_ptr<Waiting>& run) {
    run->socket.async_wait(stream_descriptor::wait_read, [this, run](const boost::system::error_code& error) {
        if (!error && waiting_ == run) died();
    });
}

void Ahead::died() {
    const std::shared_ptr<Waiting> dead = waiting_;
    let_go();
    if (!over_ && ++untaken_ < most_untaken) start(dead->kind);
}

/// It sees the end of its socket.
void Ahead::let_go() {
    if (!waiting_) return;
    const std::shared_ptr<Waiting> run = std::move(waiting_);
    run->socket.close();
    reap(std::move(run->run.child));
}

void Ahead::reap(Child child) {
    going_.insert(child.pid);
    auto ended = std::make_shared<stream_descriptor>(loop_, child.pidfd.release());
    ended->async_wait(stream_descriptor::wait_read,
                      [this, ended, pid = child.pid](const boost::system::error_code& error) {
                          if (error || going_.erase(pid) == 0) return;
                          callgate::reap(pid);
                      });
}

void Ahead::end() {
    over_ = true;
    let_go();
    for (const pid_t child : std::exchange(going_, {})) callgate::reap(child);
}

}  // namespace callgate::jobs
