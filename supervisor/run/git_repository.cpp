#include "supervisor/run/git_repository.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/escape.hpp"
#include "base/open_without_links.hpp"
#include "base/read_whole.hpp"
#include "base/test_switch.hpp"
#include "base/words.hpp"
#include "supervisor/calls/files/git_config_text.hpp"
#include "supervisor/host/host.hpp"

namespace callgate {

namespace {

/// git writes a `gitdir` again that is older than a day. One that lies in the future is as good as new.
constexpr std::chrono::seconds max_run = std::chrono::days(30);

constexpr std::size_t max_config = std::size_t{1} << 20U;

/// The rules name these in a repository, so none may be a link.
constexpr auto opened = std::to_array<std::string_view>({"HEAD",
                                                         "HEAD.lock",
                                                         "ORIG_HEAD",
                                                         "index",
                                                         "config",
                                                         "config.lock",
                                                         "config.worktree",
                                                         "config.worktree.lock",
                                                         "description",
                                                         "packed-refs",
                                                         "packed-refs.lock",
                                                         "packed-refs.new",
                                                         "shallow",
                                                         "shallow.lock",
                                                         "objects",
                                                         "refs",
                                                         "logs",
                                                         "reftable",
                                                         "info",
                                                         "info/refs",
                                                         "hooks",
                                                         "worktrees",
                                                         "rr-cache",
                                                         "lfs",
                                                         "modules",
                                                         "gc.pid",
                                                         "gc.pid.lock",
                                                         "gc.log",
                                                         "gc.log.lock"});

std::string in_directory(const std::string& directory, std::string_view name) {
    return (directory == "/" ? "" : directory) + '/' + std::string(name);
}

/// A whole file of the user's own, by a name without links.
Expected<std::string> read_own(const std::string& path, std::size_t limit) {
    const auto failed = [&path](const std::string& what) { return Problem{path + ' ' + what}; };
    const UniqueFd file = check_enabled("git-links")
                              ? open_without_links(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY)
                              : UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file && errno == ELOOP) return failed("leads through a symbolic link");
    if (!file) return failed(std::string("cannot be read: ") + std::strerror(errno));
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return failed(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) return failed("is no regular file");
    // Another name of the file could be written where its own cannot.
    if (status.st_nlink != 1) return failed("has another name (a hard link)");
    Result<std::string> text = read_whole(file.get(), limit);
    if (!text) return failed("cannot be read: " + text.error().message());
    if (text->size() > limit) return failed("is too long");
    return std::move(*text);
}

/// Whether others can neither change `path` nor make it, or a directory above it, lead elsewhere. In a sticky
/// directory nobody else moves what is ours.
Expected<void> is_ours(const std::string& path) {
    for (std::string one = path; one != "/"; one.resize(std::max<std::size_t>(one.rfind('/'), 1))) {
        struct stat status {};
        if (::lstat(one.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0)
            continue;
        if (Expected<void> ours = is_only_ours(one); !ours)
            return Problem{"it needs " + one + ", " + ours.error().text};
    }
    return {};
}

/// `path` without dots, and beneath the directory `base` if it is relative.
std::string beside(const std::string& base, std::string_view path) {
    std::string whole = (std::filesystem::path(base) / path).lexically_normal();
    while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
    return whole;
}

/// The path in a file of one line that begins with `mark`. It stands beside the directory `base` if it is
/// relative.
Expected<std::string> path_in(const std::string& file, std::string_view mark, const std::string& base) {
    const Expected<std::string> text = read_own(file, PATH_MAX + mark.size() + 1);
    if (!text) return text.error();
    std::string_view line = *text;
    const auto control = [](char one) { return static_cast<unsigned char>(one) < 0x20 || one == 0x7f; };
    if (!line.starts_with(mark) || !line.ends_with('\n')) return Problem{file + " is not as git writes it"};
    line = line.substr(mark.size(), line.size() - mark.size() - 1);
    if (line.empty() || std::ranges::any_of(line, control)) return Problem{file + " is not as git writes it"};
    return beside(base, line);
}

struct Named {
    GitRepository repository;
    std::string confirms;  // the repository's file that names the work directory
};

/// COMMON/worktrees/NAME
Expected<Named> worktree(const std::string& admin, const std::string& git_file) {
    const std::filesystem::path path(admin);
    Named found{{.common = path.parent_path().parent_path(), .admin = admin, .named = admin, .why = {}},
                in_directory(admin, "gitdir")};
    const Expected<std::string> back = path_in(found.confirms, "", admin);
    if (!back) return back.error();
    if (*back != git_file && check_enabled("git-back-pointer"))
        return Problem{found.confirms + " names " + *back};
    const Expected<std::string> above = read_own(in_directory(admin, "commondir"), PATH_MAX);
    if (!above) return above.error();
    if (*above != "../..\n")
        return Problem{in_directory(admin, "commondir") + " does not lead to " + found.repository.common};
    return found;
}

/// The only value of core.worktree; nothing if the settings are not plain.
std::optional<std::string> core_worktree(std::string_view text) {
    const auto lines = calls::parse_git_config(text);
    std::optional<std::string> value;
    for (std::size_t index = 0; lines && index < lines->size(); ++index) {
        const calls::GitConfigLine& line = (*lines)[index];
        if (lower_case(line.section.name).starts_with("include")) return std::nullopt;
        if (line.kind != calls::GitConfigLine::Kind::setting || line.full_key() != "core.worktree") continue;
        if (value || !line.value) return std::nullopt;
        value = line.value;
    }
    return value;
}

/// SUPER/.git/modules/NAME, that of a worktree of SUPER, or a directory of any name (`--separate-git-dir`)
Expected<Named> named_by_settings(const std::string& admin, const std::string& workdir, bool planted) {
    Named found{{.common = admin, .admin = admin, .named = admin, .why = {}, .worktree = false},
                in_directory(admin, "config")};
    const Expected<std::string> text = read_own(found.confirms, max_config);
    if (!text) return text.error();
    const std::optional<std::string> back = core_worktree(*text);
    if (!back)
        return Problem{found.confirms + " names no work tree" +
                       (planted ? ", and an earlier run could have written .git"
                                : ": if they belong together, run git config core.worktree " +
                                      shell_quote(workdir) + " there")};
    const std::string path = beside(admin, *back);
    if (path != workdir && check_enabled("git-back-pointer"))
        return Problem{found.confirms + " names " + path};
    struct stat status {};
    if (::lstat(in_directory(admin, "commondir").c_str(), &status) == 0)
        return Problem{in_directory(admin, "commondir") + " is there, as in a worktree alone"};
    return found;
}

Expected<Named> confirmed(const std::string& named, const std::string& workdir, const std::string& git_file,
                          bool planted) {
    const std::filesystem::path path(named);
    return path.parent_path().filename() == "worktrees" ? worktree(named, git_file)
                                                        : named_by_settings(named, workdir, planted);
}

/// Whether this is a repository, of which no part that the rules name is a link.
Expected<void> is_plain(const GitRepository& repository) {
    const auto kind = [](const std::string& path) -> mode_t {
        struct stat status {};
        return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & S_IFMT : 0;
    };
    for (const std::string_view name : opened)
        if (const std::string path = in_directory(repository.common, name);
            kind(path) == S_IFLNK && check_enabled("git-parts"))
            return Problem{path + " is a symbolic link"};
    for (const std::string_view name : {"objects", "refs"})
        if (const std::string path = in_directory(repository.common, name);
            kind(path) != S_IFDIR && check_enabled("git-parts"))
            return Problem{path + " is no directory"};
    return {};
}

/// The options by which git works in a worktree that lies beneath the main work tree; "" elsewhere.
std::string way_from_above(const std::string& common, const std::string& workdir) {
    const std::filesystem::path path(common);
    const std::string above = path.parent_path().string();
    if (path.filename() != ".git" || !workdir.starts_with(above + '/')) return "";
    return "; git works here with --workdir " + shell_quote(above) + " --cwd " + shell_quote(workdir);
}

Expected<GitRepository> trusted(const std::string& named, const std::string& workdir,
                                const std::string& git_file,
                                const std::function<Expected<rules::LinkRoots>()>& written) {
    const Expected<rules::LinkRoots> before = written();
    const bool planted = !before || before->may_hold(git_file);
    const Expected<Named> found = confirmed(named, workdir, git_file, planted);
    if (!found) return found.error();
    for (const std::string& path : {git_file, found->confirms})
        if (Expected<void> ours = is_ours(path); !ours && check_enabled("git-owner")) return ours.error();
    if (Expected<void> plain = is_plain(found->repository); !plain) return plain.error();
    const Expected<rules::LinkRoots> roots = written();
    if (!roots) return roots.error();
    if (roots->may_hold(git_file) && roots->lies_in_root(found->confirms) && check_enabled("git-forged"))
        return Problem{"an earlier run could have written both " + git_file + " and " + found->confirms +
                       way_from_above(found->repository.common, workdir)};
    return found->repository;
}

}  // namespace

GitRepository find_git_repository(const std::string& workdir,
                                  const std::function<Expected<rules::LinkRoots>()>& written) {
    const std::string git_file = in_directory(workdir, ".git");
    struct stat status {};
    if (::lstat(git_file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    GitRepository closed;
    // The record closes `.git` there with all that lies in it.
    if (git_file.find("/.git/") != std::string::npos) {
        closed.why = workdir + " lies in a repository";
        return closed;
    }
    Expected<std::string> named = path_in(git_file, "gitdir: ", workdir);
    if (!named) {
        closed.why = named.error().text;
        return closed;
    }
    Expected<GitRepository> found = trusted(*named, workdir, git_file, written);
    if (found) return std::move(*found);
    closed.named = std::move(*named);
    closed.why = found.error().text;
    return closed;
}

void refresh_pointer(const GitRepository& repository) {
    if (repository.admin.empty() || !repository.worktree) return;
    const UniqueFd file =
        open_without_links(in_directory(repository.admin, "gitdir").c_str(), O_RDONLY | O_NONBLOCK);
    timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {}};
    if (!file || ::clock_gettime(CLOCK_REALTIME, &times[1]) != 0) return;
    times[1].tv_sec += max_run.count();
    static_cast<void>(::futimens(file.get(), times));
}

std::string describe(const GitRepository& repository, const std::string& workdir) {
    if (!repository.why.empty())
        return in_directory(workdir, ".git") + " names a repository that stays closed: " + repository.why;
    if (repository.admin.empty()) return "";
    const char* const kind = repository.worktree ? " is a worktree of "
                             : repository.common.find("/modules/") != std::string::npos
                                 ? " is a submodule, kept in "
                                 : " has its repository in ";
    return workdir + kind + repository.common +
           ": objects and refs there are open, hooks and settings are not";
}

}  // namespace callgate
