// The directory in which runs and those who answer find each other: one socket and one token for each run.
//
// Private to the user: 0700, ours, no link (checked on the opened directory); the target is kept out by the
// built-in rules, whose `runtime` this is. Strangers of the same user are not: who can read the token may
// answer (docs/threat-model.md).
#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace callgate::approval {

/// Makes the directory where it is absent. EPERM where it is not ours alone.
[[nodiscard]] boost::system::result<void> make_meeting_place(const std::string& directory);

/// A run's socket, listening, and its token on file; both are removed again by `leave`.
struct MeetingPoint {
    UniqueFd listening;
    std::string token;
};
[[nodiscard]] boost::system::result<MeetingPoint> open_meeting_point(const std::string& directory,
                                                                     const std::string& run);
void leave_meeting_point(const std::string& directory, const std::string& run);
/// The names that `leave` removes, for who must do it in place of a lost supervisor.
[[nodiscard]] std::vector<std::string> meeting_point_files(const std::string& directory,
                                                           const std::string& run);

/// The runs that have a socket there, sorted.
[[nodiscard]] std::vector<std::string> runs_at(const std::string& directory);
/// Connects to a run's socket. ECONNREFUSED where the run is gone; what it left is then removed.
[[nodiscard]] boost::system::result<UniqueFd> connect_to(const std::string& directory,
                                                         const std::string& run);
/// Held by one that waits for the questions of all runs, those to come too; let go of by closing it.
[[nodiscard]] boost::system::result<UniqueFd> announce_approver(const std::string& directory);
/// Whether somebody does.
[[nodiscard]] bool approver_waits(const std::string& directory);
/// "" where there is none.
[[nodiscard]] std::string token_of(const std::string& directory, const std::string& run);

}  // namespace callgate::approval
