#include "supervisor/jobs/warm_run.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "supervisor/jobs/job_message.hpp"

namespace callgate::jobs {

namespace {

using boost::asio::posix::stream_descriptor;

/// So many runs in a row may end without having had a job: whatever ends them would end the next, too.
constexpr int max_untaken = 3;
/// Something else may have changed, once: after so many jobs it is tried again.
constexpr int max_late = 32;
/// One has its run at work while another's waits; more where jobs last.
constexpr std::size_t max_zygotes = 4;

}  // namespace

struct Ahead::Waiting {
    Waiting(boost::asio::io_context& loop, Kind asked, RunProcess started, UniqueFd end)
        : kind(std::move(asked)), run(std::move(started)), socket(loop, end.release()) {}

    enum class Said : std::uint8_t { born, taken, nothing_more };
    /// What it says next, which is there. Its child is known once it is born; where there is no descriptor
    /// for that one, it is of no use.
    Said hear() {
        Born said{};
        const ssize_t got = ::recv(socket.native_handle(), &said, sizeof said, MSG_DONTWAIT);
        if (got == 1 && said.what == taken) return Said::taken;
        if (got != sizeof said || said.what != Born::word) return Said::nothing_more;
        run.child = {said.process, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, said.process, 0U)))};
        return run.child.pidfd ? Said::born : Said::nothing_more;
    }
    [[nodiscard]] bool is_born() const { return run.child.pid > 0; }

    Kind kind;
    RunProcess run;  // its zygote is known
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
    const bool same = waiting_->run.zygote->inherited() == Inherited::current();
    if (!same || ::send(waiting_->socket.native_handle(), message->data(), message->size(),
                        MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        let_go();
        if (!same) dismiss_all();
        return false;
    }
    untaken_ = 0;
    const std::shared_ptr<Waiting> told = std::move(waiting_);
    told->socket.cancel();  // nobody watches for its end any more
    await_answer(told, std::move(answer));
    return true;
}

/// It may still say that it is there, before.
void Ahead::await_answer(const std::shared_ptr<Waiting>& run,
                         std::function<void(std::optional<RunProcess>)> answer) {
    run->socket.async_wait(stream_descriptor::wait_read,
                           [this, run, answer = std::move(answer)](const boost::system::error_code&) mutable {
                               const Waiting::Said said = run->hear();
                               if (said == Waiting::Said::born) return await_answer(run, std::move(answer));
                               if (said == Waiting::Said::taken) {
                                   if (late_ > 0) --late_;
                                   run->run.news.reset(run->socket.release());
                                   return answer(std::move(run->run));
                               }
                               late_ = max_late;
                               dismiss_all();  // they looked at the same machine
                               if (run->is_born()) reap(std::move(run->run.child), run->run.zygote);
                               answer(std::nullopt);
                           });
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

/// None where all are at work, or there are too few descriptors: the next job says so, if it needs them.
void Ahead::start(const Kind& kind) {
    auto sockets = make_sockets();
    if (!sockets) return;
    const Connections connections{.input = kind.input, .merged = kind.merged, .job = &sockets->theirs};
    for (std::size_t attempt = 0; attempt <= max_zygotes; ++attempt) {
        const std::shared_ptr<Zygote> zygote = free_zygote(kind);
        if (!zygote) return;
        if (auto run = zygote->ask(connections)) {
            run->zygote = zygote;
            waiting_ = std::make_shared<Waiting>(loop_, kind, std::move(*run), std::move(sockets->ours));
            return watch(waiting_);
        }
        dismiss(zygote);  // it has ended: what it had worked out was not true any more
    }
}

/// One whose last run is over; its own processes hold it as long.
std::shared_ptr<Zygote> Ahead::free_zygote(const Kind& kind) {
    if (!(zygotes_kind_ == kind)) dismiss_all();
    zygotes_kind_ = kind;
    const auto free = std::ranges::find_if(zygotes_, [](const auto& one) { return one.use_count() == 1; });
    if (free != zygotes_.end()) return *free;
    if (zygotes_.size() == max_zygotes) return nullptr;
    std::shared_ptr<Zygote> made = Zygote::start(kind.frame, environment_, signals_);
    if (made) zygotes_.push_back(made);
    return made;
}

void Ahead::dismiss(const std::shared_ptr<Zygote>& zygote) {
    if (std::erase(zygotes_, zygote) > 0) reap(zygote->dismiss());
}

void Ahead::dismiss_all() {
    for (const auto& zygote : std::exchange(zygotes_, {})) reap(zygote->dismiss());
}

/// After that it says nothing before it is told something: what comes is its end.
void Ahead::watch(const std::shared_ptr<Waiting>& run) {
    run->socket.async_wait(stream_descriptor::wait_read, [this, run](const boost::system::error_code& error) {
        if (error || waiting_ != run) return;
        if (run->hear() == Waiting::Said::born) return watch(run);
        died();
    });
}

/// Its directory may be left, by which the zygote's next run could not begin.
void Ahead::died() {
    const std::shared_ptr<Waiting> dead = waiting_;
    let_go();
    dismiss(dead->run.zygote);
    if (!over_ && ++untaken_ < max_untaken) return start(dead->kind);
    dismiss_all();
}

/// It sees the end of its socket. Whether it was forked at all is told there.
void Ahead::let_go() {
    if (!waiting_) return;
    const std::shared_ptr<Waiting> run = std::move(waiting_);
    run->socket.cancel();
    if (run->is_born()) {
        run->socket.close();
        return reap(std::move(run->run.child), run->run.zygote);
    }
    ::shutdown(run->socket.native_handle(), SHUT_WR);
    unready_.push_back(run);
    await_birth(run);
}

void Ahead::await_birth(const std::shared_ptr<Waiting>& run) {
    run->socket.async_wait(stream_descriptor::wait_read, [this, run](const boost::system::error_code& error) {
        if (error || std::erase(unready_, run) == 0) return;
        if (run->hear() == Waiting::Said::born) reap(std::move(run->run.child), run->run.zygote);
    });
}

void Ahead::reap(Child child, std::shared_ptr<Zygote> zygote) {
    going_.insert(child.pid);
    if (!child.pidfd) return;
    auto ended = std::make_shared<stream_descriptor>(loop_, child.pidfd.release());
    ended->async_wait(
        stream_descriptor::wait_read,
        [this, ended, pid = child.pid, zygote = std::move(zygote)](const boost::system::error_code& error) {
            if (error || going_.erase(pid) == 0) return;
            callgate::reap(pid);
        });
}

void Ahead::end() {
    over_ = true;
    let_go();
    dismiss_all();
    for (const auto& run : std::exchange(unready_, {})) {
        run->socket.wait(stream_descriptor::wait_read);
        if (run->hear() == Waiting::Said::born) going_.insert(run->run.child.pid);
    }
    for (const pid_t child : std::exchange(going_, {})) callgate::reap(child);
}

}  // namespace callgate::jobs
