#include "supervisor/jobs/server.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <set>
#include <utility>

#include "base/process/signal_descriptor.hpp"
#include "base/test_switch.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/jobs/answer_text.hpp"

namespace callgate::jobs {

namespace {

namespace asio = boost::asio;

/// No job is started while so many bytes of answers wait for their reader.
constexpr std::size_t max_backlog = std::size_t{256} << 20U;
/// No output of jobs that stream is read while so much waits.
constexpr std::size_t max_unread = std::size_t{1} << 20U;
/// The server waits so long for a reader that does not read the last answers.
constexpr std::chrono::seconds answer_patience{10};

int open_ending_signals() {
    ::signal(SIGPIPE, SIG_IGN);
    return open_signals(std::array{SIGTERM, SIGINT, SIGHUP});
}

class Server {
public:
    Server(const Settings& settings, Form form, std::size_t max_jobs,
           std::optional<std::chrono::milliseconds> drain = std::nullopt);
    End run_one(Request request);
    End serve();

private:
    struct Waiting {
        Job job;
        std::size_t size = 0;
        std::vector<Input> inputs{};  // that came before it began
    };
    void watch_signals();
    void on_signal(int number);
    void begin_drain();
    void reader_gone();
    void receive(Request request, std::size_t size);
    void receive_job(Job job, std::size_t size);
    void cancel(const Cancel& request);
    void pause(const Pause& request);
    void add_input(Input input);
    void answer_input(const std::string& job, const std::string& id, const std::string& why);
    void start_waiting();
    void start(Job job, std::vector<Input> inputs = {});
    void answers_written();
    void refuse(Waiting& waiting, const std::string& why);
    void ended(JobResult result);
    void refuse_waiting(const std::string& why);
    void send(std::function<std::string()> text, std::size_t size = 0) { writer_.add(std::move(text), size); }
    void send(Fault fault) {
        send([fault = std::move(fault), form = form_] { return answer_text(fault, form); });
    }
    void stop_if_done();

    const Settings& settings_;
    Form form_;
    std::size_t max_;
    SignalState inherited_ = SignalState::current();  // before any is changed
    std::vector<std::string> environment_ = current_environment();
    asio::io_context loop_{1};
    asio::posix::stream_descriptor signals_;
    WarmRun warm_{loop_, inherited_, environment_};
    JobContext context_{loop_, settings_, environment_, inherited_};
    AnswerWriter writer_;
    RequestReader reader_;
    std::map<std::string, std::shared_ptr<Execution>> running_;
    std::deque<Waiting> waiting_;
    std::string ending_;                              // why no job is started any more
    std::optional<std::chrono::milliseconds> drain_;  // until the first signal
    asio::steady_timer drained_{loop_};
    bool paused_ = false;         // output of some job
    std::set<std::string> held_;  // jobs whose output its reader paused
    bool input_ended_ = false, unread_ = false, nothing_ran_ = false;
};

Server::Server(const Settings& settings, Form form, std::size_t max_jobs,
               std::optional<std::chrono::milliseconds> drain)
    : settings_(settings),
      form_(form),
      max_(max_jobs),
      signals_(loop_, open_ending_signals()),
      writer_(
          STDOUT_FILENO, [this] { asio::post(loop_, [this] { answers_written(); }); },
          [this] { asio::post(loop_, [this] { reader_gone(); }); }),
      reader_(
          loop_, STDIN_FILENO,
          [this](Request request, std::size_t size) {
              asio::post(loop_, [this, request = std::move(request), size]() mutable {
                  receive(std::move(request), size);
              });
          },
          [this] {
              asio::post(loop_, [this] {
                  input_ended_ = true;
                  for (const auto& [id, execution] : running_) execution->end_input();
                  stop_if_done();
              });
          },
          !drain),
      drain_(drain) {
    context_.piece = [this](const std::string& id, std::string_view output, std::string_view bytes) {
        std::string line = answer_text(id, output, bytes);
        const std::size_t size = line.size();
        send([line = std::move(line)] { return line; }, size);
        if (writer_.backlog() >= max_unread) paused_ = true;
        return writer_.backlog() < max_unread && !held_.contains(id);
    };
}

End Server::run_one(Request request) {
    watch_signals();
    writer_.start();
    input_ended_ = true;
    if (auto* const fault = std::get_if<Fault>(&request)) {
        nothing_ran_ = true;
        send(std::move(*fault));
    } else {
        start(std::get<Job>(std::move(request)));
        loop_.run();
    }
    if (!writer_.finish(answer_patience) || unread_) return End::unwritten;
    return nothing_ran_ ? End::no_job : End::good;
}

End Server::serve() {
    watch_signals();
    context_.warm = &warm_;
    writer_.start();
    reader_.start();
    loop_.run();
    warm_.end();
    return writer_.finish(answer_patience) && !unread_ ? End::good : End::unwritten;
}

void Server::watch_signals() {
    signals_.async_wait(
        asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
            if (error) return;
            signalfd_siginfo info{};
            while (::read(signals_.native_handle(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
                on_signal(static_cast<int>(info.ssi_signo));
            watch_signals();
        });
}

void Server::begin_drain() {
    send([] { return std::string(drain_line); });
    drained_.expires_after(*std::exchange(drain_, std::nullopt));
    drained_.async_wait([this](const boost::system::error_code& error) {
        if (!error) on_signal(SIGTERM);
    });
}

/// A command may live on after SIGINT; a server has no command that could.
void Server::on_signal(int number) {
    if (drain_) return begin_drain();
    const int passed = form_ == Form::served && number == SIGINT ? SIGTERM : number;
    if (passed != SIGINT)
        refuse_waiting(std::string("callgate exec was ended by SIG") + ::sigabbrev_np(number));
    for (const auto& [id, execution] : running_) execution->signal(passed);
    if (passed != SIGINT) stop_if_done();
}

void Server::reader_gone() {
    unread_ = true;
    refuse_waiting("nobody reads the answers");
    for (const auto& [id, execution] : running_) execution->end_now();
    stop_if_done();
}

void Server::receive(Request request, std::size_t size) {
    if (auto* const job = std::get_if<Job>(&request)) return receive_job(std::move(*job), size);
    reader_.accepted(size);
    if (const auto* const request_to_cancel = std::get_if<Cancel>(&request))
        return cancel(*request_to_cancel);
    if (auto* const input = std::get_if<Input>(&request)) return add_input(std::move(*input));
    if (const auto* const request_to_pause = std::get_if<Pause>(&request)) return pause(*request_to_pause);
    send(std::get<Fault>(std::move(request)));
}

void Server::receive_job(Job job, std::size_t size) {
    std::string why = ending_;
    const bool known = running_.contains(job.id) || std::ranges::any_of(waiting_, [&job](const Waiting& one) {
                           return one.job.id == job.id;
                       });
    if (why.empty() && known) why = "id: a job with this id has not ended yet";
    if (!why.empty()) {
        reader_.accepted(size);
        return send(Fault{job.id, why});
    }
    waiting_.push_back({std::move(job), size});
    start_waiting();
}

void Server::answer_input(const std::string& job, const std::string& id, const std::string& why) {
    send([job, id, why] { return input_answer(job, id, why); });
}

void Server::add_input(Input input) {
    const auto answered = [this, job = input.id, id = input.own_id](const std::string& why) {
        answer_input(job, id, why);
    };
    if (const auto running = running_.find(input.id); running != running_.end())
        return running->second->add_input(std::move(input.bytes), input.last, answered);
    const auto waiting =
        std::ranges::find_if(waiting_, [&input](const Waiting& one) { return one.job.id == input.id; });
    if (waiting == waiting_.end()) return answered("no job with this id runs or waits");
    std::size_t size = 0;
    for (const Input& one : waiting->inputs) size += one.bytes.size() + sizeof one;
    if (size > 0 && size + input.bytes.size() > max_waiting_input)
        return answered("the job has not begun; send this when it has");
    waiting->inputs.push_back(std::move(input));
}

/// The job does not begin.
void Server::refuse(Waiting& waiting, const std::string& why) {
    reader_.accepted(waiting.size);
    for (const Input& one : waiting.inputs) answer_input(one.id, one.own_id, why);
    send(Fault{waiting.job.id, why});
}

void Server::cancel(const Cancel& request) {
    const auto waiting =
        std::ranges::find_if(waiting_, [&request](const Waiting& one) { return one.job.id == request.id; });
    const auto running = running_.find(request.id);
    const bool found = waiting != waiting_.end() || running != running_.end();
    send([request, found] { return answer_text(request, found); });
    if (running != running_.end())
        request.now ? running->second->end_now() : running->second->signal(SIGTERM);
    if (waiting == waiting_.end()) return;
    refuse(*waiting, "cancelled before it began");
    waiting_.erase(waiting);
    stop_if_done();
}

void Server::pause(const Pause& request) {
    const auto running = running_.find(request.id);
    if (running == running_.end() || !check_enabled("output-pauses")) return;
    if (request.on)
        held_.insert(request.id);
    else if (held_.erase(request.id) > 0 && !paused_)
        running->second->resume();
}

void Server::start_waiting() {
    while (running_.size() < max_ && !waiting_.empty() && writer_.backlog() < max_backlog) {
        Waiting next = std::move(waiting_.front());
        waiting_.pop_front();
        reader_.accepted(next.size);
        start(std::move(next.job), std::move(next.inputs));
    }
}

void Server::answers_written() {
    start_waiting();
    if (!paused_ || writer_.backlog() >= max_unread) return;
    paused_ = false;
    for (const auto& [id, execution] : running_)
        if (!held_.contains(id)) execution->resume();
}

void Server::start(Job job, std::vector<Input> inputs) {
    const std::string id = job.id;
    auto execution = std::make_shared<Execution>(context_, std::move(job));
    running_.emplace(id, execution);
    execution->start([this](JobResult result) { ended(std::move(result)); });
    for (Input& input : inputs) add_input(std::move(input));
    if (input_ended_) execution->end_input();
}

void Server::ended(JobResult result) {
    running_.erase(result.id);
    held_.erase(result.id);
    nothing_ran_ = !result.why.empty();
    const std::size_t size = result.output.bytes.size() + result.error.bytes.size() + result.report.size();
    send([result = std::make_shared<JobResult>(std::move(result)),
          compat = settings_.compat] { return answer_text(*result, compat); },
         size);
    start_waiting();
    stop_if_done();
}

void Server::refuse_waiting(const std::string& why) {
    if (ending_.empty()) ending_ = why;
    for (Waiting& one : waiting_) refuse(one, why);
    waiting_.clear();
}

void Server::stop_if_done() {
    if ((input_ended_ || !ending_.empty()) && running_.empty() && waiting_.empty()) loop_.stop();
}

}  // namespace

End run_one(const std::string& text, const Settings& settings) {
    // The server is never destroyed: its threads last as long as the process.
    auto* const server = new Server(settings, Form::once, 1);
    return server->run_one(parse_request(text, Form::once));
}

End serve(const Settings& settings, std::size_t max_jobs) {
    auto* const server = new Server(settings, Form::served, max_jobs);
    return server->serve();
}

End serve(const Settings& settings, std::size_t max_jobs, const Drain& drain) {
    auto* const server = new Server(settings, Form::served, max_jobs, drain.time);
    return drain.ready() ? server->serve() : End::unwritten;
}

}  // namespace callgate::jobs
