// The record of where runs of this user could make symbolic links. It outlives the runs.
//
// The record is one file of the state directory. Each line is a root, or after "-" a closed hierarchy. A
// start adds its own before its command can do anything, and gets those of all runs so far. A run can neither
// read nor change the file (invariant 9). It only grows. To keep it short, many roots of one directory become
// that directory. A user who has looked at the links may remove the file.
#pragma once

#include <string>

#include "base/expected.hpp"
#include "rules/plan/link_names.hpp"

namespace callgate {

/// Adds `roots` to the record in the directory `state`, and returns all that are there. Mostly the record has
/// them already, and is only read. The problem names the file. Any number of processes may do it at once.
[[nodiscard]] Expected<rules::LinkRoots> record_link_roots(const std::string& state,
                                                           const rules::LinkRoots& roots);

/// The same, without adding anything.
[[nodiscard]] Expected<rules::LinkRoots> recorded_link_roots(const std::string& state);

/// The record of where runs could write a `.git` that is a file, or the repository's own file that confirms
/// it (supervisor/run/git_repository.hpp). It is kept in the same way. Where it does not exist yet, runs of
/// an older callgate count: they could write wherever they could make links. So it is added to first.
[[nodiscard]] Expected<rules::LinkRoots> record_pointer_roots(const std::string& state,
                                                              const rules::LinkRoots& roots);
[[nodiscard]] Expected<rules::LinkRoots> recorded_pointer_roots(const std::string& state);

}  // namespace callgate
