#include "supervisor/jobs/execution.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "agent/landlock.hpp"
#include "base/json_read.hpp"
#include "base/process/await_readable.hpp"
#include "supervisor/jobs/answer_text.hpp"
#include "supervisor/jobs/job_message.hpp"
#include "supervisor/run/report.hpp"

namespace callgate::jobs {

namespace {

namespace asio = boost::asio;

/// A report holds at most the arguments of the command and 256 denials, escaped.
constexpr std::uint64_t max_report = std::uint64_t{32} << 20U;
/// When a run is killed, its guardian ends the tree and writes the report within this time.
constexpr std::chrono::seconds guardian_patience{30};

/// The report of a run that was killed before it or its guardian could write one.
std::string report_without_run(const Job& job, bool cancelled, int status) {
    RunFacts facts;
    facts.workdir = job.workdir;
    facts.command = job.command;
    facts.audited = false;
    facts.landlock_abi = agent::kernel_landlock_abi();
    RunOutcome outcome;
    outcome.outcome = cancelled ? Outcome::cancelled : Outcome::supervisor_lost;
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    if (!cancelled) outcome.error = "callgate run was killed, and left no report";
    return RunReport().json(facts, outcome, 0, "");
}

/// callgate's message on stderr, without its prefix.
std::string message_on(std::string text) {
    constexpr std::string_view prefix = "callgate: ";
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
    while (text.ends_with('\n')) text.pop_back();
    return text.empty() ? "callgate run failed and said nothing" : text;
}

}  // namespace

Execution::Execution(const JobContext& context, Job job)
    : context_(context),
      job_(std::move(job)),
      ended_(context.loop),
      progress_(context.loop),
      patience_(context.loop) {}

void Execution::start(std::function<void(JobResult)> done) {
    done_ = std::move(done);
    const Expected<void> allowed = check_allowed(job_, context_.settings);
    allowed ? launch() : refuse(allowed.error().text);
}

void Execution::refuse(std::string why) {
    asio::post(context_.loop, [self = shared_from_this(), why = std::move(why)] {
        JobResult result;
        result.id = self->job_.id;
        result.why = why;
        self->done_(std::move(result));
    });
}

/// The run that waits takes the job, if there is one; else a new run is started.
void Execution::launch() {
    const CommandLine line = command_line(job_, context_.settings, context_.environment);
    const Connections connections{.input = !job_.input.empty() || job_.stdin_open,
                                  .merged = job_.merge_stderr,
                                  .script = job_.script,
                                  .rules = line.rules};
    WarmRun* const warm = context_.warm;
    if (warm != nullptr)
        if (auto run = warm->give(line, connections)) return attach(std::move(*run));
    launch_new(line, connections);
    if (warm != nullptr) warm->start();
}

void Execution::launch_new(const CommandLine& line, const Connections& connections) {
    std::vector<std::string> environment = line.environment;
    environment.insert(environment.end(), line.variables.begin(), line.variables.end());
    auto made = start_run("run", line.words, environment, connections, context_.signals);
    if (!made) return refuse(made.error().text);
    attach(std::move(*made));
}

void Execution::attach(RunProcess run) {
    child_ = std::move(run.child);
    const std::uint64_t max_kept =
        std::min(job_.max_output.value_or(max_output), context_.settings.max_output);
    const auto open = [this, max_kept](std::unique_ptr<Stream>& stream, UniqueFd end, std::string_view name) {
        if (!end) return;
        stream = std::make_unique<Stream>(context_.loop, std::move(end), max_kept);
        ++open_streams_;
        const auto rest = std::make_shared<std::string>();  // the beginning of a character
        const auto closed = [self = shared_from_this(), name, rest] {
            if (!rest->empty()) static_cast<void>(self->context_.piece(self->job_.id, name, *rest));
            --self->open_streams_;
            self->stream_closed();
        };
        if (!job_.stream) return stream->start(closed);
        stream->start(
            closed,
            [this, name, rest](std::string_view bytes) {
                *rest += bytes;
                const std::string_view whole = whole_characters(*rest);
                const bool goes_on = whole.empty() || context_.piece(job_.id, name, whole);
                rest->erase(0, whole.size());
                return goes_on;
            },
            !job_.stream_only);
    };
    open(output_, std::move(run.output), "output");
    open(error_, std::move(run.error), "error");
    report_ = std::make_unique<Stream>(context_.loop, std::move(run.report), max_report);
    report_open_ = true;
    report_->start([self = shared_from_this()] {
        self->report_open_ = false;
        self->stream_closed();
    });
    feed(std::move(run.input));
    watch_child();
    watch_progress(std::move(run.progress));
}

/// If the job does not read its stdin, the rest is never written.
void Execution::feed(UniqueFd end) {
    if (!end) return;
    input_ = std::make_shared<JobInput>(context_.loop, std::move(end));
    input_->add(std::exchange(job_.input, {}), !job_.stdin_open, nullptr);
}

void Execution::watch_child() {
    ended_.assign(child_.pidfd.release());
    await_readable(ended_, [self = shared_from_this()](const boost::system::error_code& error) {
        if (!error) self->child_ended();
    });
}

void Execution::watch_progress(UniqueFd progress) {
    if (!progress) return;
    progress_.assign(progress.release());
    await_progress();
}

void Execution::await_progress() {
    await_readable(progress_, [self = shared_from_this()](const boost::system::error_code& error) {
        if (!error) self->receive_progress();
    });
}

void Execution::receive_progress() {
    char message[2]{};
    const ssize_t got =
        reaped_ ? 0 : ::recv(progress_.native_handle(), message, sizeof message, MSG_DONTWAIT);
    if (got == 1 && message[0] == jobs::started) {
        context_.warm->start();
        return await_progress();
    }
    // Anything else is the end of the process, which `child_ended` handles.
    if (got == sizeof message && message[0] == jobs::exited)
        run_ended(static_cast<unsigned char>(message[1]));
}

/// The report is written and nothing else is left of the run but its process, which WarmRun reaps.
void Execution::run_ended(int exit_status) {
    status_ = W_EXITCODE(exit_status, 0);
    context_.warm->reap({child_.pid, UniqueFd(ended_.release())});
    reaped_ = true;
    report_->finish();
    stream_closed();
}

void Execution::child_ended() {
    if (reaped_) return;  // both came at once
    status_ = reap(child_.pid);
    reaped_ = true;
    boost::system::error_code ignored;
    progress_.close(ignored);
    patience_.expires_after(guardian_patience);
    patience_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
        if (!error && self->report_open_) self->report_->finish();
    });
    stream_closed();
}

/// When the report ends, run and guardian have ended. Nothing of the tree is left that could write, even if
/// another process holds the pipes.
void Execution::stream_closed() {
    if (!reaped_ || report_open_) return;
    patience_.cancel();
    if (input_) input_->close();
    if (open_streams_ > 0) {
        output_->finish();
        if (error_) error_->finish();
        return;
    }
    asio::post(context_.loop, [self = shared_from_this()] { self->finish(); });
}

void Execution::finish() {
    JobResult result;
    result.id = job_.id;
    result.merged = job_.merge_stderr;
    result.output = output_->take();
    if (error_) result.error = error_->take();
    result.report = report_->take().bytes;
    classify(result);
    done_(std::move(result));
    if (context_.warm != nullptr) context_.warm->start();
}

void Execution::classify(JobResult& result) const {
    result.exit_status = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    const json_read::json report = json_read::parse_object(result.report);
    const std::string outcome = json_read::text(json_read::member(report, "outcome"));
    if (outcome == name(Outcome::setup_error) && result.output.total == 0) {
        result.why = json_read::text(json_read::member(report, "error"));
    } else if (outcome.empty() && WIFEXITED(status_) && result.exit_status == 125) {
        result.why = message_on(result.merged ? result.output.bytes : result.error.bytes);
        result.report.clear();
    } else if (outcome.empty() || (cancelled_ && WIFSIGNALED(status_))) {
        result.report = report_without_run(job_, cancelled_, status_);
    }
}

void Execution::signal(int number) {
    cancelled_ = true;
    if (reaped_ || child_.pid <= 0) return;  // until it is reaped, no other process has the number
    ::kill(child_.pid, number);
    ::kill(child_.pid, SIGCONT);  // it may be stopped with its command
}

void Execution::add_input(std::string bytes, bool last, JobInput::Done done) {
    if (!job_.stdin_open) return done("the job was not sent with \"stdin_open\":true");
    if (!input_) return done("nothing ran");
    input_->add(std::move(bytes), last, std::move(done));
}

void Execution::end_input() {
    if (input_ && job_.stdin_open) input_->add({}, true, nullptr);
}

void Execution::resume() {
    if (output_) output_->resume();
    if (error_) error_->resume();
}

/// A second signal that ends runs ends the tree at once. Two of the same number could merge into one.
void Execution::end_now() {
    signal(SIGHUP);
    signal(SIGTERM);
}

}  // namespace callgate::jobs
