// What a run that was started ahead is told when its job has come: one message over a socket.
//
// Both ends are ours; what the words hold is the job's, so none of them is believed to end where it should.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::jobs {

/// In place of a verb: `callgate` then waits for its job on `job_descriptor`, a SOCK_SEQPACKET.
inline constexpr std::string_view ahead_word = "run-ahead";
inline constexpr int job_descriptor = 6;
/// Longer ones are not sent: they must fit into a socket's buffer at once (socket(7), SO_SNDBUF).
inline constexpr std::size_t longest_message = 100'000;
/// The answer: from now on it is this job's run. Anything else, or none, means that it has not begun
/// anything.
inline constexpr char taken = 'y';
/// Later, when nothing of the run is left but this process and its guardian's, which exit, followed by the
/// exit status: that takes its time, and need not be waited for.
inline constexpr char ended = 'e';

struct LateWords {
    std::vector<std::string> words;      // as after `callgate run`
    std::vector<std::string> variables;  // "NAME=value", besides callgate's own
};

/// Nothing where it is too long, or a word holds a NUL.
[[nodiscard]] std::optional<std::string> pack(const LateWords& words);
/// Nothing where it is no message of `pack`.
[[nodiscard]] std::optional<LateWords> unpack(std::string_view message);

}  // namespace callgate::jobs
