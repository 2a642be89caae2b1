// Runs one job: a `callgate run`, the pipes to it, and the result.
//
// Owns the child until it is reaped, and every pipe to it. Once the run has ended, nothing of the job is
// waited for: neither an open pipe nor the rest of stdin.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/jobs/command_line.hpp"
#include "supervisor/jobs/job_input.hpp"
#include "supervisor/jobs/run_process.hpp"
#include "supervisor/jobs/stream.hpp"
#include "supervisor/jobs/warm_run.hpp"

namespace callgate::jobs {

struct JobResult {
    std::string id;
    std::string why;  // not "": nothing ran
    Captured output, error;
    std::string report;     // one JSON object
    int exit_status = 125;  // of `callgate run`
    bool merged = false;
};

/// All executions share this, and it outlives them.
struct JobContext {
    boost::asio::io_context& loop;
    const Settings& settings;
    const std::vector<std::string>& environment;
    const SignalState& signals;
    WarmRun* warm = nullptr;  // null: no run is started before its job
    /// Sends a piece of output of the job `id`; needed where a job can ask for it. Returns false if so much
    /// waits for its reader that no more is to be read until `resume`.
    std::function<bool(const std::string& id, std::string_view output, std::string_view bytes)> piece{};
};

/// Used by the loop's thread. Keeps itself alive until `done` was called.
class Execution : public std::enable_shared_from_this<Execution> {
public:
    Execution(const JobContext& context, Job job);
    /// Calls `done` once, later, whatever happens.
    void start(std::function<void(JobResult)> done);
    /// Sends the signal to the run, which passes it on to the command or ends the tree (docs/cli.md).
    void signal(int number);
    /// Ends the tree at once.
    void end_now();
    /// More for its stdin. `done` is called now or later, before the `done` of `start`.
    void add_input(std::string bytes, bool last, JobInput::Done done);
    /// No more input comes.
    void end_input();
    /// Goes on to read output.
    void resume();

private:
    void launch();
    void launch_new(const CommandLine& line, const Connections& connections);
    void attach(RunProcess run);
    void refuse(std::string why);
    void feed(UniqueFd end);
    void watch_child();
    void watch_progress(UniqueFd progress);
    void await_progress();
    void receive_progress();
    void run_ended(int exit_status);
    void child_ended();
    void stream_closed();
    void finish();
    void classify(JobResult& result) const;

    const JobContext& context_;
    Job job_;
    std::function<void(JobResult)> done_;
    Child child_;
    boost::asio::posix::stream_descriptor ended_, progress_;
    std::shared_ptr<JobInput> input_;
    std::unique_ptr<Stream> output_, error_, report_;
    boost::asio::steady_timer patience_;
    int open_streams_ = 0;  // of the job's own
    bool report_open_ = false, reaped_ = false, cancelled_ = false;
    int status_ = 0;  // of waitpid
};

}  // namespace callgate::jobs
