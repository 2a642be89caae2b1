// The home that lasts (--home), and what is copied into it (--home-from).
//
// The home is the command's alone, and the rules let a run change nearly everything in it. So an earlier run
// may have put anything there: a link in place of a directory, or another file in place of a copied one. It
// cannot have replaced the home itself. That lies apart from the work directory, and the rule callgate-roots
// keeps it where it is. What callgate makes in it is made beneath a held descriptor, and no link is followed.
//
// Files of credentials are never copied: a login that exists twice ends with the first one that is renewed.
// Such files are those that the profile `base` closes. A file is judged by its name, which leads through no
// link, and the file that is opened there is the one that is copied.
#pragma once

#include <string>
#include <vector>

#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/linked_paths.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

struct LastingHome {
    std::string path;                // canonical; "": the command has the user's home
    std::vector<std::string> files;  // of the user's home, without links; beneath it
};

/// Reads --home and --home-from. Nothing is made yet. The links on the way are added to `linked`. Throws
/// Failure: a home that is, or holds, the user's home or the work directory, or lies in that.
[[nodiscard]] LastingHome choose_lasting_home(const Arguments& arguments, const Places& places,
                                              const std::string& workdir, LinkedPaths& linked);

/// Makes the home, if it is not there, and copies the files that it lacks. Throws Failure: a home that others
/// may write, a file of credentials, a link.
void make_lasting_home(const LastingHome& home, const Places& places, const std::string& workdir);

}  // namespace callgate::cli
