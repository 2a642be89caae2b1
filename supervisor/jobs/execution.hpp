// One job under way: its `callgate run`, the pipes to it, and what comes of it.
//
// Owns the child until it is reaped and every pipe to it. Nothing that the job does is waited for once its
// run has ended: not an open pipe, not what is left in stdin.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/jobs/command_line.hpp"
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

/// What all executions share; outlives them.
struct Surroundings {
    boost::asio::io_context& loop;
    const Settings& settings;
    const std::vector<std::string>& environment;
    const SignalState& signals;
    WarmRun* warm = nullptr;  // null: no run is started before its job
};

/// Used by the loop's thread; keeps itself until `done` was called.
class Execution : public std::enable_shared_from_this<Execution> {
public:
    Execution(const Surroundings& surroundings, Job job);
    /// `done` is called once, later, whatever happens.
    void start(std::function<void(JobResult)> done);
    /// The signal goes to the run, which passes it on to the command or ends the tree (cli.md).
    void signal(int number);
    /// Ends the tree at once.
    void end_now();

private:
    void launch();
    void launch_new(const CommandLine& line, const Connections& connections);
    void attach(RunProcess run);
    void refuse(std::string why);
    void feed(UniqueFd end);
    void watch_child();
    void watch_news(UniqueFd news);
    void await_news();
    void told_news();
    void run_ended(int exit_status);
    void child_ended();
    void stream_closed();
    void finish();
    void judge(JobResult& result) const;

    const Surroundings& surroundings_;
    Job job_;
    std::function<void(JobResult)> done_;
    Child child_;
    boost::asio::posix::stream_descriptor input_, ended_, news_;
    std::unique_ptr<Stream> output_, error_, report_;
    boost::asio::steady_timer patience_;
    int open_streams_ = 0;  // of the job's own
    bool report_open_ = false, reaped_ = false, cancelled_ = false;
    int status_ = 0;  // of waitpid
};

}  // namespace callgate::jobs
