// The directory in which runs and approvers find each other, with one socket and one token for each run.
//
// It is private to the user: mode 0700, the user's own, and no link (checked on the opened directory). The
// built-in rules keep the target out; it is their `runtime`. Outside processes of the same user are not kept
// out: a process that can read the token may answer (docs/threat-model.md).
#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace callgate::approval {

/// Makes the directory if it is absent. EPERM if another user could use it.
[[nodiscard]] boost::system::result<void> make_runtime_directory(const std::string& directory);

/// A run's socket, listening, and its token on file. `remove_run_socket` removes both.
struct RunSocket {
    UniqueFd listening;
    std::string token;
};
[[nodiscard]] boost::system::result<RunSocket> open_run_socket(const std::string& directory,
                                                               const std::string& run);
void remove_run_socket(const std::string& directory, const std::string& run);
/// The names that `remove_run_socket` removes, for a guardian that has lost its supervisor.
[[nodiscard]] std::vector<std::string> run_socket_files(const std::string& directory, const std::string& run);

/// The runs that have a socket there, sorted.
[[nodiscard]] std::vector<std::string> runs_at(const std::string& directory);
/// Connects to a run's socket. ECONNREFUSED if the run is gone; its files are then removed.
[[nodiscard]] boost::system::result<UniqueFd> connect_to(const std::string& directory,
                                                         const std::string& run);
/// Announces an approver of all runs, also of those to come, until the descriptor is closed.
[[nodiscard]] boost::system::result<UniqueFd> announce_approver(const std::string& directory);
/// Whether an approver is announced.
[[nodiscard]] bool approver_waits(const std::string& directory);
/// The token of a run, as its file holds it.
[[nodiscard]] boost::system::result<std::string> read_token(const std::string& directory,
                                                            const std::string& run);

}  // namespace callgate::approval
