// Starts a `callgate` process before its job, so that the next job need not wait for that.
//
// Until its job comes, the process reads no rule and looks at no file. Each job's rules are worked out from
// the machine as it is then. Each process serves one job, so nothing of another job is in its descriptors,
// its environment or its memory. One message gives it the job with the job's descriptors, and makes it a
// `callgate run` like any other. At most one process waits, and it ends with the server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/jobs/command_line.hpp"
#include "supervisor/jobs/inherited.hpp"
#include "supervisor/jobs/run_process.hpp"

namespace callgate::jobs {

/// Used by the loop's thread; outlives the loop's last round.
class WarmRun {
public:
    WarmRun(boost::asio::io_context& loop, const SignalState& signals,
            const std::vector<std::string>& environment)
        : loop_(loop), signals_(signals), environment_(passed_on(environment)) {}

    /// Starts a run for the next job, unless one waits. If that fails, the next job starts its own.
    void start();
    /// Gives the job to the run that waits, and returns that run. Returns nothing if no run waits, if the job
    /// is too long for one message, or if the server's children would now inherit something else.
    [[nodiscard]] std::optional<RunProcess> give(const CommandLine& line, const Connections& connections);
    /// Reaps a run that has ended, once its process has exited.
    void reap(Child child);
    /// Ends the run that waits. Returns when that one, and all that `reap` was given, have exited.
    void end();

private:
    struct Waiting;

    void launch();
    void watch_end();
    void stop();

    boost::asio::io_context& loop_;
    const SignalState& signals_;
    std::vector<std::string> environment_;
    std::shared_ptr<Waiting> waiting_;
    int failures_ = 0;          // runs in a row that ended before a job came
    std::set<pid_t> unreaped_;  // see `reap`
    bool over_ = false;         // `end` was called
};

}  // namespace callgate::jobs
