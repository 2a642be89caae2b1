#include "supervisor/run/planted.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/open_without_links.hpp"
#include "base/read_whole.hpp"
#include "base/reader_letters.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "base/words.hpp"
#include "supervisor/calls/files/git_config_text.hpp"
#include "supervisor/run/planted_names.hpp"

namespace callgate {
namespace {

// The walk is made at the start and at the end of each run.
constexpr std::size_t max_entries = 20'000;

bool not_before(const timespec& one, const timespec& other) {
    return one.tv_sec != other.tv_sec ? one.tv_sec > other.tv_sec : one.tv_nsec >= other.tv_nsec;
}

/// Files that the settings of the repository at the top name. A run cannot change the settings, but the
/// files.
struct NamedByGit {
    std::string hooks = "/";            // a directory, with a slash at its end; "/": there is none
    std::vector<std::string> included;  // files; "" counts for none

    /// Whether one of them lies beneath a directory, which ends with a slash.
    [[nodiscard]] bool lie_in(std::string_view directory) const {
        return hooks.starts_with(directory) || std::ranges::any_of(included, [&](const std::string& one) {
                   return one.starts_with(directory);
               });
    }
};

/// A path that is relative to `base`, as one beneath the work directory; "" if it leads elsewhere.
std::string beneath(const std::string& workdir, const std::string& base, const std::string& path) {
    namespace fs = std::filesystem;
    const fs::path whole = (fs::path(workdir) / base / path).lexically_normal();
    const std::string text = whole.lexically_relative(workdir).string();
    return text == "." || text.starts_with("..") ? "" : text;
}

/// The program of a command that is a setting's value (a filter, an alias), as `beneath` gives it; "" if it
/// is looked for elsewhere. git runs it at the top of the work directory.
std::string program_in(const std::string& workdir, std::string_view command) {
    if (command.starts_with('!')) command.remove_prefix(1);
    const bool quoted = command.starts_with('"') || command.starts_with('\'');
    const std::string_view end = quoted ? command.substr(0, 1) : " \t;|&";
    if (quoted) command.remove_prefix(1);
    const std::string_view program = command.substr(0, command.find_first_of(end));
    return program.find('/') == std::string_view::npos ? "" : beneath(workdir, "", std::string(program));
}

NamedByGit named_by_git(int top, const std::string& workdir) {
    const open_how way{O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    const UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, top, ".git/config", &way, sizeof way)));
    NamedByGit named;
    const auto text = fd ? read_whole(fd.get(), std::size_t{1} << 20U) : Result<std::string>(errno_code());
    const auto lines = text ? calls::parse_git_config(*text) : std::nullopt;
    if (!lines || !check_enabled("planted-hooks")) return named;
    for (const calls::GitConfigLine& line : *lines) {
        if (line.kind != calls::GitConfigLine::Kind::setting || !line.value) continue;
        const std::string section = lower_case(line.section.name), key = lower_case(line.key);
        if (section == "core" && key == "hookspath") named.hooks = beneath(workdir, "", *line.value) + '/';
        if (section.starts_with("include") && key == "path")
            named.included.push_back(beneath(workdir, ".git", *line.value));
        else if (!has_word("fetch merge url", key))
            named.included.push_back(program_in(workdir, *line.value));
    }
    return named;
}

/// Whether a directory has the form by which git takes it for a repository, whatever its name.
bool is_repository(int directory) {
    return ::faccessat(directory, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
           ::faccessat(directory, "objects", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/// Whether a directory stands in a repository.
bool is_in_repository(int directory) {
    const UniqueFd above(::openat(directory, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return above && is_repository(above.get());
}

class Walk {
public:
    using Held = std::function<bool(const std::string& path)>;
    Walk(int top, std::string workdir, const timespec& since, const Held& held)
        : top_(top),
          workdir_(std::move(workdir)),
          since_(since),
          held_(held),
          named_(named_by_git(top, workdir_)) {}
    Planted run();

private:
    /// `directory` lies beneath the work directory and ends with a slash; "" is itself.
    bool look_into(const std::string& directory);
    /// Whether the run could make nothing in a directory: it is another user's, and closed.
    [[nodiscard]] bool is_anothers(const std::string& directory) const;
    /// Whether it is a repository that is not named by its HEAD already.
    [[nodiscard]] bool is_old_repository(int directory) const;
    void look_at(int parent, const std::string& directory, const Counted& counted, const dirent& entry);
    /// Names the file or link that an old link leads to, if the run changed it: the tool follows the link.
    void look_behind(const std::string& link, Urgency urgency);

    int top_;
    std::string workdir_;
    const timespec& since_;
    const Held& held_;
    NamedByGit named_;
    std::vector<std::string> left_;
    std::size_t seen_ = 0;
    std::vector<std::pair<Urgency, std::string>> found_;
    bool cut_ = false;
};

/// git's objects and installed packages hold no such names that a user would look at.
bool enters(const std::string& parent, std::string_view name) {
    if (name == "node_modules" || name == "site-packages") return false;
    if (name == "jupyter" && parent.ends_with("/share/")) return false;  // of an environment of Python's
    return !parent.ends_with(".git/") ||
           has_word(
               "hooks remotes branches modules worktrees rebase-merge rebase-apply sequencer sl branchless",
               name);
}

bool Walk::is_old_repository(int directory) const {
    struct stat head {};
    return is_repository(directory) && ::fstatat(directory, "HEAD", &head, AT_SYMLINK_NOFOLLOW) == 0 &&
           !not_before(head.st_ctim, since_);
}

void Walk::look_behind(const std::string& link, Urgency urgency) {
    namespace fs = std::filesystem;
    constexpr int most_links = 8;
    fs::path place = workdir_ + '/' + link;
    for (int links = 0; links < most_links; ++links) {
        std::error_code failed;
        const fs::path target = place.parent_path() / fs::read_symlink(place, failed);
        const fs::path above = failed ? fs::path() : fs::canonical(target.parent_path(), failed);
        struct stat status {};
        if (failed || ::lstat((place = above / target.filename()).c_str(), &status) != 0) return;
        if (!S_ISDIR(status.st_mode) && not_before(status.st_ctim, since_)) {
            const std::string real = place.string();
            const bool within = real.starts_with(workdir_ + '/');
            if (!held_(real)) found_.emplace_back(urgency, within ? real.substr(workdir_.size() + 1) : link);
            return;
        }
        if (!S_ISLNK(status.st_mode)) return;
    }
}

void Walk::look_at(int parent, const std::string& directory, const Counted& counted, const dirent& entry) {
    const std::string_view name = entry.d_name;
    if (name == "." || name == "..") return;
    ++seen_;
    bool is_directory = entry.d_type == DT_DIR;
    const bool is_link = entry.d_type == DT_LNK && check_enabled("planted-link");
    struct stat status {};
    Found found = is_link ? urgency_of_link(directory, counted, name) : urgency(directory, counted, name);
    if (!named_.included.empty() &&
        std::ranges::find(named_.included, directory + entry.d_name) != named_.included.end())
        found = Urgency::at_once;
    if (!found && has_word("config config.worktree lazygit.yml", name) && is_old_repository(parent))
        found = Urgency::at_once;
    if ((found && !is_directory) || entry.d_type == DT_UNKNOWN) {
        if (::fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
        is_directory = S_ISDIR(status.st_mode);
        if (S_ISLNK(status.st_mode) && !is_link) found = urgency_of_link(directory, counted, name);
    }
    if (is_directory) {
        std::string beneath = directory + entry.d_name + '/';
        if (enters(directory, name) || named_.lie_in(beneath)) left_.push_back(std::move(beneath));
    } else if (found && !not_before(status.st_ctim, since_)) {
        if (S_ISLNK(status.st_mode) && *found != Urgency::unknown && check_enabled("planted-behind"))
            look_behind(directory + entry.d_name, *found);
    } else if (found) {
        std::string path = directory + entry.d_name;
        if (held_(workdir_ + '/' + path)) return;
        // All files count in a hidden directory that no list knows, such as an environment of Python's.
        if (*found == Urgency::unknown) path.resize(std::min(path.find('/'), path.size() - 1) + 1);
        found_.emplace_back(*found, std::move(path));
    }
}

bool Walk::is_anothers(const std::string& directory) const {
    struct stat status {};
    return ::fstatat(top_, directory.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_uid != ::geteuid() && ::faccessat(top_, directory.c_str(), X_OK, AT_EACCESS) != 0;
}

/// False if the directory was not read to its end.
bool Walk::look_into(const std::string& directory) {
    if (seen_ >= max_entries) return false;
    const open_how way{O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    UniqueFd fd(static_cast<int>(
        ::syscall(SYS_openat2, top_, directory.empty() ? "." : directory.c_str(), &way, sizeof way)));
    if (!fd) return errno == ENOENT || (errno == EACCES && is_anothers(directory));
    const int number = fd.get();
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(number), ::closedir);
    if (!stream) return false;
    static_cast<void>(fd.release());
    const bool hooks =
        directory == named_.hooks || (directory.ends_with("hooks/") && is_in_repository(number));
    const Counted counted = hooks ? Counted{Urgency::at_once, true} : counted_in(directory);
    while (const dirent* entry = ::readdir(stream.get())) {
        if (seen_ >= max_entries) return false;
        look_at(number, directory, counted, *entry);
    }
    return true;
}

Planted Walk::run() {
    left_.emplace_back();
    for (std::size_t next = 0; next < left_.size(); ++next)
        if (const std::string one = left_[next]; !look_into(one)) cut_ = true;
    // A file may be found by its name and through links.
    std::sort(found_.begin(), found_.end());
    std::set<std::string> named;
    std::erase_if(found_, [&](const auto& one) { return !named.insert(one.second).second; });
    Planted result{.paths = {}, .more = 0, .cut = cut_};
    for (auto& [urgency, path] : found_)
        if (result.paths.size() < max_planted_paths)
            result.paths.push_back(std::move(path));
        else
            ++result.more;
    return result;
}

}  // namespace

bool runs_later(std::string_view path) {
    const std::size_t leaf = path.rfind('/') + 1;  // 0 if there is no slash
    const std::string_view directory = path.substr(0, leaf);
    return urgency(directory, counted_in(directory), path.substr(leaf)).has_value();
}

Planted find_planted(const std::string& workdir, const timespec& since,
                     const std::function<bool(const std::string& path)>& held) {
    const UniqueFd top = open_without_links(workdir.c_str(), O_PATH | O_DIRECTORY);
    if (!top) return {.paths = {}, .more = 0, .cut = true};
    return Walk(top.get(), workdir, since, held).run();
}

std::string planted_line(const Planted& planted) {
    if (planted.paths.empty())
        return planted.cut ? "callgate: what your tools may run was not looked for in all directories\n" : "";
    std::string text = "callgate: your tools may run code from what changed: ";
    for (const std::string& path : planted.paths) {
        if (&path != &planted.paths.front()) text += ", ";
        text += delimited_name(path);
    }
    if (planted.more > 0) text.append(" … and ").append(std::to_string(planted.more)).append(" more");
    if (planted.cut) text += " (not all directories were looked at)";
    return text + '\n';
}

}  // namespace callgate
