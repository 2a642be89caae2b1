// A run that is started before its job: `callgate run` up to its command, waiting for the next job that is
// like the last one.
//
// It is a process of its own for that one job, forked from one that knows of no job (zygote.hpp): nothing
// that another job had is in its descriptors, its environment or its memory. It is told its job in one
// message, makes sure that the machine is as it was, and answers whether it takes it; until then nothing of
// the job has begun, so that any other run can do it. At most one waits; it ends with the server, and with
// the thread that started it.
//
// It is started as a job begins, to be there for one that follows at once. Where jobs change what the rules
// were worked out for (files in the work directory), that comes too early, and it is started as a job ends.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/jobs/command_line.hpp"
#include "supervisor/jobs/run_process.hpp"
#include "supervisor/jobs/zygote.hpp"

namespace callgate::jobs {

/// Used by the loop's thread; outlives the loop's last round.
class Ahead {
public:
    Ahead(boost::asio::io_context& loop, const SignalState& signals,
          const std::vector<std::string>& environment)
        : loop_(loop), signals_(signals), environment_(passed_on(environment)) {}

    /// What a job needs of a run to be like another.
    struct Kind {
        std::vector<std::string> frame;
        bool input = false, merged = false;
        bool operator==(const Kind&) const = default;
    };
    /// Nothing: no run can wait for such a job.
    [[nodiscard]] static std::optional<Kind> kind(const Job& job, const CommandLine& line);

    /// Whether a run that waits was told this job; `answer` is then called once, later: with the run where it
    /// took it.
    [[nodiscard]] bool give(const Kind& kind, const CommandLine& line,
                            std::function<void(std::optional<RunProcess>)> answer);
    /// A job of this kind has begun, and has ended: starts the run for the next one, if there is likely to be
    /// one.
    void begun(const Kind& kind);
    void ended(const Kind& kind);
    /// Reaps a run that is over, once it has exited; until then it keeps `zygote`.
    void reap(Child child, std::shared_ptr<Zygote> zygote = nullptr);
    /// Ends the run that waits, and waits until it and any other that is not to be waited for are gone.
    void end();

private:
    struct Waiting;

    void expect(const Kind& kind);
    void start(const Kind& kind);
    [[nodiscard]] std::shared_ptr<Zygote> free_zygote(const Kind& kind);
    void dismiss(const std::shared_ptr<Zygote>& zygote);
    void dismiss_all();
    void watch(const std::shared_ptr<Waiting>& run);
    void await_answer(const std::shared_ptr<Waiting>& run,
                      std::function<void(std::optional<RunProcess>)> answer);
    void await_birth(const std::shared_ptr<Waiting>& run);
    void died();
    void let_go();

    boost::asio::io_context& loop_;
    const SignalState& signals_;
    std::vector<std::string> environment_;
    std::vector<std::shared_ptr<Zygote>> zygotes_;  // of `zygotes_kind_`; who else holds one is its run
    Kind zygotes_kind_;
    std::shared_ptr<Waiting> waiting_;
    std::vector<std::shared_ptr<Waiting>> unready_;  // let go before they said that they are there
    std::optional<Kind> last_;
    bool likely_ = true;     // the next job is like the last one
    bool missed_ = false;    // the last one waited for a job of another kind
    int late_ = 0;           // above 0: jobs change what was looked at; not before they end, for so many more
    int untaken_ = 0;        // runs in a row that ended before a job came
    std::set<pid_t> going_;  // to be reaped
    bool over_ = false;      // `end` was called
};

}  // namespace callgate::jobs
