// Settings of a git repository that a run changes by a rename of its lock file, key by key.
//
// An attacker controls both names, what the lock file holds at any time, and who else holds it: a descriptor,
// a shared map, another link. So that file never becomes the settings. Its content is read once and judged
// (git_config.hpp). A new file is written from what was parsed. It gets its name by a rename within the
// directory that was judged. Until then it stands under a name that the same rules close to the run, and that
// is looked up before the file is made. The lock file is then removed, as its rename would have done. The
// caller holds the names alone, so no other rename of the run comes between.
//
// Some changes are asked about (git_config.hpp). The question shows key, old and new values, and its key is
// over them. While it waits nothing is held, and the attacker may rewrite the lock file. So an answer brings
// the call back to its beginning: both files are read again. The answer counts if the same values would
// change.
#pragma once

#include <sys/stat.h>

#include <optional>

#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// A name and what stands there, if anything.
struct StandingAt {
    const Place& place;
    const struct stat* status;
};

/// Records that callgate does something else than it was asked to (Mechanism::filtered). Fails the call if
/// that cannot be written.
[[nodiscard]] std::optional<std::uint64_t> record_filtered(FileCall& context, const Subject& subject,
                                                           const rules::Verdict& verdict);

/// The denial of opening such a file for writing, or a count (git_counts.hpp), where the rule that denies it
/// filters changes. The settings are made alone: libgit2 makes an empty file first. So the run gets one that
/// it can only read.
[[nodiscard]] std::optional<rules::Verdict> filtered_opening(FileCall& context, const Subject& subject,
                                                             const std::string& path);

/// Decides and answers the rename, where the rule that denies it says so. False: it is another rule.
[[nodiscard]] bool change_filtered(FileCall& context, const Subject& subject, const StandingAt& lock,
                                   const StandingAt& settings, unsigned flags);

}  // namespace callgate::calls
