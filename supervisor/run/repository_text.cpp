// The line of the footer about a repository that the work directory is a part of.
//
// Tools of a project look above the directory that they start in: git for its repository, npm and cargo for
// their workspace. Whoever allows what they miss there name by name never ends. So the line says how to work
// in all of it. It stands beside the options for single names, which allow less. A run makes no `.git` above
// its work directory, so it cannot choose which directory is named.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/at_or_beneath.hpp"
#include "base/escape.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

bool has_git(const std::string& directory) {
    struct stat status {};
    return ::lstat((directory + "/.git").c_str(), &status) == 0;
}

/// The nearest directory above that holds a repository; "" if `directory` is one itself. Neither the home nor
/// what lies above it counts, as an option never names those.
std::string repository_above(std::string directory, const std::string& home) {
    if (has_git(directory)) return {};
    for (;;) {
        directory.resize(std::min(directory.rfind('/'), directory.size()));
        if (!is_small_tree(directory, home)) return {};
        if (has_git(directory)) return directory;
    }
}

/// The argument of --cwd by which the command starts where it did.
std::string start_argument(const RunFacts& facts) {
    const std::string& start = facts.directory.empty() ? facts.workdir : facts.directory;
    std::error_code failed;
    return std::filesystem::current_path(failed) == start ? "." : shell_quote(start);
}

}  // namespace

std::string repository_text(const std::vector<Denial>& denials, const RunFacts& facts) {
    const auto outside = [&](const Denial& one) {
        return !one.would && !one.by_rule && !one.hint.empty() && one.object.starts_with('/') &&
               !at_or_beneath(one.object, facts.workdir);
    };
    if (std::ranges::none_of(denials, outside)) return {};
    const std::string root = repository_above(facts.workdir, facts.home);
    if (root.empty() || std::ranges::none_of(denials, [&](const Denial& one) {
            return outside(one) && at_or_beneath(one.object, root);
        }))
        return {};
    return "callgate: the work directory is part of a repository; to work in all of it: --workdir " +
           shell_quote(root) + " --cwd " + start_argument(facts) + '\n';
}

}  // namespace callgate
