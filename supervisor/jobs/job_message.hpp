// The messages between `callgate exec --serve` and a run that waits for its job (warm_run.hpp). One message
// gives the run its job; in two short ones the run reports how far it is.
//
// Both ends are callgate's own, but the sender of a job chose every byte of its words.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate::jobs {

/// In place of a verb, this word makes `callgate` wait for a job at `job_descriptor`, a SOCK_SEQPACKET.
inline constexpr std::string_view warm_word = "run-warm";
inline constexpr int job_descriptor = 6;
/// A message must fit into a socket's buffer at once (socket(7), SO_SNDBUF).
inline constexpr std::size_t max_message = 100'000;

/// The run sends this when its command begins: other work of the server need not wait any longer.
inline constexpr char started = 's';
/// The run sends this, followed by its exit status, when only its own process and its guardian's are left.
/// Both then exit; that takes time, and nobody needs to wait for it.
inline constexpr char exited = 'e';

struct JobMessage {
    std::vector<std::string> words;      // as after `callgate run`
    std::vector<std::string> variables;  // "NAME=value", added to callgate's own environment
};

/// Returns nothing if the message is too long, or a word holds a NUL.
[[nodiscard]] std::optional<std::string> pack(const JobMessage& job);
/// Returns nothing if `pack` cannot have made this message.
[[nodiscard]] std::optional<JobMessage> unpack(std::string_view message);

/// An open descriptor, and the number that it is to have in the run.
using Connected = std::vector<std::pair<UniqueFd, int>>;
struct ReceivedJob {
    JobMessage job;
    Connected connected;
};

/// Sends a packed job. `descriptors` holds, for each of at most 8, its number here and its number in the run.
/// Never waits. Errors: errno of sendmsg(2); EINVAL for none or too many descriptors.
[[nodiscard]] Result<void> send_job(int socket, const std::string& packed,
                                    std::span<const std::pair<int, int>> descriptors);
/// Waits for a job. Its descriptors are close-on-exec and above every number that a run is connected by.
/// Errors: errno of recvmsg(2); ECONNRESET where the sender is gone; EBADMSG for any other message;
/// EMFILE where this process may not open so many descriptors.
[[nodiscard]] Result<ReceivedJob> receive_job(int socket);

}  // namespace callgate::jobs
