// What the server asks of a zygote: one more run, connected by descriptors that the message carries
// (SCM_RIGHTS, unix(7)). Both ends are callgate's own.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace callgate::jobs {

/// Each with the number that it is to have in the run.
using Connected = std::vector<std::pair<UniqueFd, int>>;

/// `descriptors`: what is open here, and as what number there; at most 8. Never waits. False: nobody reads
/// it, or too much of it waits already.
[[nodiscard]] bool send_run_request(int socket, std::span<const std::pair<int, int>> descriptors);

/// Close-on-exec. Nothing where the sender is gone. Does not wait for one.
[[nodiscard]] std::optional<Connected> receive_run_request(int socket);

}  // namespace callgate::jobs
