// What is said over a socket between the server and a run that waits for its job: that it is there, its job,
// and what becomes of it.
//
// Both ends are ours; what the words hold is the job's, so none of them is believed to end where it should.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::jobs {

/// In place of a verb: `callgate` is then a zygote, which is asked for runs over `job_descriptor`, a
/// SOCK_SEQPACKET (run_request.hpp). In such a request it is the number of the run's own.
inline constexpr std::string_view ahead_word = "run-ahead";
inline constexpr int job_descriptor = 6;
/// Longer ones are not sent: they must fit into a socket's buffer at once (socket(7), SO_SNDBUF).
inline constexpr std::size_t max_message = 100'000;
/// The first word of a run, with its process: it is there, and waits for its job.
struct Born {
    static constexpr char word = 'b';
    char what = word;
    pid_t process = -1;
};
/// The answer to a job: from now on it is this job's run. Anything else, or none, means that it has not begun
/// anything.
inline constexpr char taken = 'y';
/// The command begins: what else the server has to do need not wait any longer.
inline constexpr char begun = 'g';
/// Later, when nothing of the run is left but this process and its guardian's, which exit, followed by the
/// exit status: that takes its time, and need not be waited for.
inline constexpr char ended = 'e';

struct JobMessage {
    std::vector<std::string> words;      // as after `callgate run`
    std::vector<std::string> variables;  // "NAME=value", besides callgate's own
};

/// Nothing where it is too long, or a word holds a NUL.
[[nodiscard]] std::optional<std::string> pack(const JobMessage& words);
/// Nothing where it is no message of `pack`.
[[nodiscard]] std::optional<JobMessage> unpack(std::string_view message);

}  // namespace callgate::jobs
