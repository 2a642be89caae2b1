// A process that has worked out what the rules mean for jobs of one kind, and forks a run for each: `callgate
// run` up to the guardian, without a job.
//
// It is told nothing of any job: a run that it forks has in its memory what the command line and the machine
// say, and in its descriptors what the request brought. The runs are the server's children (CLONE_PARENT).
// All runs of one zygote use the same name for their private directory, one after the other, because the
// rules that were worked out name it: each makes a directory of its own, and nobody else's (mkdir(2)). And
// they have one layout of memory, as forked processes do.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/jobs/inherited.hpp"
#include "supervisor/jobs/run_process.hpp"

namespace callgate::jobs {

/// Used by the loop's thread.
class Zygote {
public:
    /// `frame`: words of `callgate run` without a job's own. Null where there are too few processes,
    /// descriptors. It is the server's child, which the owner reaps.
    [[nodiscard]] static std::shared_ptr<Zygote> start(const std::vector<std::string>& frame,
                                                       const std::vector<std::string>& environment,
                                                       const SignalState& signals);

    /// Asks for a run that is connected so; `connections.job` is its end of a SOCK_SEQPACKET, over which it
    /// says that it is there (late_words.hpp). Its child is known then. Not while another of its runs may
    /// still have its directory. Nothing where there are too few descriptors, or it has ended.
    [[nodiscard]] std::optional<RunProcess> ask(const Connections& connections);

    /// What its runs have of the server.
    [[nodiscard]] const Inherited& inherited() const { return inherited_; }
    /// It forks nothing any more, and ends; its child, to be reaped.
    [[nodiscard]] Child dismiss();

private:
    Zygote(Inherited inherited, Child child, UniqueFd socket)
        : inherited_(std::move(inherited)), child_(std::move(child)), socket_(std::move(socket)) {}

    Inherited inherited_;
    Child child_;
    UniqueFd socket_;
};

/// Connected, for messages that stay whole: close-on-exec, both at least `first_descriptor`.
struct SocketPair {
    UniqueFd ours, theirs;
};
/// Nothing where there are too few descriptors.
[[nodiscard]] std::optional<SocketPair> make_sockets();

}  // namespace callgate::jobs
