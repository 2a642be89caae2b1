// The repository of a work directory whose `.git` is a file: a linked worktree, a submodule, or a repository
// apart (`--separate-git-dir`; gitrepository-layout(5)). The rules know its places as ${git-common} and
// ${git-admin}.
//
// Soundness. `.git` names another directory, and a run may have written it. So the repository must confirm it
// by a file of its own. For a worktree that is COMMON/worktrees/NAME/gitdir, which holds the name of
// that very `.git`. For the others it is `config`, whose core.worktree is that very work directory. git
// sets it for submodules alone. So the user sets it for a repository apart. An attacker with runs in two
// places could write both. So one of the two must lie where no run on record could write it. If it is `.git`,
// the user or their git said which repository this is. If it is the repository's file, the user's git made
// this directory a worktree of it once. Then nobody else's choice opens anything.
//
// A run on record stays on record, and is there before its command begins. So both files are read first, and
// the record afterwards: a run that wrote what was read is in it.
//
// Both files are read once, by names without links, and must be the user's own. The names that the rules open
// must be no links. One that a run makes a link meanwhile is refused at the start, like any path of
// a rule (supervisor/cli/linked_paths.hpp). Later it leads nowhere, as grants belong to resolved names.
// `objects/info/alternates` is not read. What it names stays closed.
#pragma once

#include <functional>
#include <string>

#include "base/expected.hpp"
#include "rules/plan/link_names.hpp"

namespace callgate {

struct GitRepository {
    std::string common, admin;  // "": nothing is opened
    std::string named;          // what `.git` names; "" if it is no such file
    std::string why;            // nothing is opened although `.git` is a file
    bool worktree = true;       // false: a submodule, or a repository apart (`--separate-git-dir`)
};

/// `workdir` is canonical. `written` returns where runs so far could write such files
/// (host/link_record.hpp); it is called after all is read.
[[nodiscard]] GitRepository find_git_repository(const std::string& workdir,
                                                const std::function<Expected<rules::LinkRoots>()>& written);

/// git writes a worktree's `gitdir` again if it is older than a day, and gives up where it cannot. The rules
/// hold that file, so its time is set instead: 30 days ahead, for as long a run. A failure does not matter
/// before a day is over. Until then git keeps what belongs to a worktree whose directory is gone.
void refresh_pointer(const GitRepository& repository);

/// A sentence about what is opened, or why nothing is; "" where `.git` is no file.
[[nodiscard]] std::string describe(const GitRepository& repository, const std::string& workdir);

}  // namespace callgate
