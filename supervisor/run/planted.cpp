#include "supervisor/run/planted.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/escape.hpp"
#include "base/open_without_links.hpp"
#include "base/unique_fd.hpp"

namespace callgate {
namespace {

// The walk is made at the start and at the end of each run.
constexpr std::size_t max_entries = 20'000;

/// Everything in such a directory counts.
constexpr auto directories = std::to_array<std::string_view>(
    {".vscode", ".idea", ".zed", ".fleet", ".helix", ".claude", ".codex", ".cursor", ".gemini", ".continue",
     ".windsurf", ".roo", ".kiro", ".qwen", ".opencode", ".amazonq", ".husky", ".devcontainer"});

/// Names of files that count anywhere.
constexpr auto files = std::to_array<std::string_view>({".git",
                                                        ".envrc",
                                                        ".mcp.json",
                                                        ".aider.conf.yml",
                                                        "opencode.json",
                                                        "opencode.jsonc",
                                                        ".mise.toml",
                                                        "mise.toml",
                                                        ".mise.local.toml",
                                                        "mise.local.toml",
                                                        ".autoenv.zsh",
                                                        ".exrc",
                                                        ".nvimrc",
                                                        ".nvim.lua",
                                                        ".gdbinit",
                                                        ".lldbinit",
                                                        ".pdbrc",
                                                        "package.json",
                                                        "package-lock.json",
                                                        "yarn.lock",
                                                        "pnpm-lock.yaml",
                                                        "Makefile",
                                                        "makefile",
                                                        "GNUmakefile",
                                                        "CMakeLists.txt",
                                                        "Cargo.toml",
                                                        "Cargo.lock",
                                                        "build.rs",
                                                        "setup.py",
                                                        "pyproject.toml",
                                                        "conftest.py",
                                                        "sitecustomize.py",
                                                        "usercustomize.py",
                                                        ".Rprofile",
                                                        ".pre-commit-config.yaml",
                                                        "lefthook.yml",
                                                        ".npmrc",
                                                        ".yarnrc.yml",
                                                        ".bazelrc",
                                                        ".gitmodules",
                                                        ".tool-versions",
                                                        ".gitlab-ci.yml",
                                                        "Jenkinsfile",
                                                        ".devcontainer.json",
                                                        "justfile",
                                                        "Justfile",
                                                        "Rakefile",
                                                        "build.gradle",
                                                        "build.gradle.kts",
                                                        "pom.xml"});

/// Ends of paths that count.
constexpr auto ends = std::to_array<std::string_view>(
    {".git/config", ".git/config.worktree", ".git/commondir", ".hg/hgrc", ".hg/sharedpath",
     ".jj/repo/config.toml", ".sl/config", ".cargo/config.toml", ".config/mise/config.toml"});

template <std::size_t Size>
bool among(const std::array<std::string_view, Size>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether a directory ends with `end`, which begins with a component and ends with a slash, as `directory`
/// does.
bool ends_in(std::string_view directory, std::string_view end) {
    return directory.ends_with(end) &&
           (directory.size() == end.size() || directory[directory.size() - end.size() - 1] == '/');
}

/// The position of such a component in `directory`; npos if it is not there.
std::size_t find_component(std::string_view directory, std::string_view component) {
    std::size_t at = directory.find(component);
    while (at != std::string_view::npos && at != 0 && directory[at - 1] != '/')
        at = directory.find(component, at + 1);
    return at;
}

/// The names that count in a directory: the known ones, all but samples of hooks, or all.
enum class Counted { known, hooks, all };

/// `directory` is "", or ends with a slash.
Counted counted_in(std::string_view directory) {
    const auto has = [directory](std::string_view component) {
        return find_component(directory, component) != std::string_view::npos;
    };
    if (has(".git/") && has("hooks/")) return Counted::hooks;
    if (has(".github/workflows/")) return Counted::all;
    for (std::size_t first = 0, slash = 0; (slash = directory.find('/', first)) != std::string_view::npos;
         first = slash + 1)
        if (among(directories, directory.substr(first, slash - first))) return Counted::all;
    return Counted::known;
}

bool counts(std::string_view directory, Counted counted, std::string_view name) {
    if (counted == Counted::all || among(files, name) || name.ends_with(".pth") ||
        name.ends_with(".code-workspace"))
        return true;
    if (counted == Counted::hooks) return !name.ends_with(".sample");
    return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) {
        const std::size_t leaf = end.rfind('/') + 1;
        return name == end.substr(leaf) && ends_in(directory, end.substr(0, leaf));
    });
}

bool not_before(const timespec& one, const timespec& other) {
    return one.tv_sec != other.tv_sec ? one.tv_sec > other.tv_sec : one.tv_nsec >= other.tv_nsec;
}

class Walk {
public:
    using Held = std::function<bool(const std::string& path)>;
    Walk(int top, std::string workdir, const timespec& since, const Held& held)
        : top_(top), workdir_(std::move(workdir)), since_(since), held_(held) {}
    Planted run();

private:
    /// `directory` lies beneath the work directory and ends with a slash; "" is itself.
    bool look_into(const std::string& directory);
    /// Whether the run could make nothing in a directory: it is another user's, and closed.
    [[nodiscard]] bool is_anothers(const std::string& directory) const;
    void look_at(int parent, const std::string& directory, Counted counted, const dirent& entry);

    int top_;
    std::string workdir_;
    const timespec& since_;
    const Held& held_;
    std::vector<std::string> left_;
    std::size_t seen_ = 0;
    Planted result_;
};

/// git's objects and installed packages hold no such names that a user would look at.
bool enters(const std::string& parent, std::string_view name) {
    if (name == "node_modules" || name == "site-packages") return false;
    return !parent.ends_with(".git/") || name == "hooks" || name == "remotes" || name == "branches" ||
           name == "modules" || name == "worktrees";
}

void Walk::look_at(int parent, const std::string& directory, Counted counted, const dirent& entry) {
    const std::string_view name = entry.d_name;
    if (name == "." || name == "..") return;
    ++seen_;
    bool is_directory = entry.d_type == DT_DIR;
    struct stat status {};
    const bool wanted = counts(directory, counted, name);
    if ((wanted && !is_directory) || entry.d_type == DT_UNKNOWN) {
        if (::fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
        is_directory = S_ISDIR(status.st_mode);
    }
    if (is_directory) {
        if (enters(directory, name)) left_.push_back(directory + entry.d_name + '/');
    } else if (wanted && not_before(status.st_ctim, since_)) {
        std::string path = directory + entry.d_name;
        if (!held_(workdir_ + '/' + path)) result_.paths.push_back(std::move(path));
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
    const Counted counted = counted_in(directory);
    while (const dirent* entry = ::readdir(stream.get())) {
        if (seen_ >= max_entries) return false;
        look_at(number, directory, counted, *entry);
    }
    return true;
}

Planted Walk::run() {
    left_.emplace_back();
    for (std::size_t next = 0; next < left_.size(); ++next)
        if (const std::string one = left_[next]; !look_into(one)) result_.cut = true;
    std::sort(result_.paths.begin(), result_.paths.end());
    if (result_.paths.size() > max_planted_paths) {
        result_.more = result_.paths.size() - max_planted_paths;
        result_.paths.resize(max_planted_paths);
    }
    return std::move(result_);
}

}  // namespace

bool runs_later(std::string_view path) {
    const std::size_t leaf = path.rfind('/') + 1;  // 0 if there is no slash
    const std::string_view directory = path.substr(0, leaf);
    return counts(directory, counted_in(directory), path.substr(leaf));
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
        text += terminal_safe(path);
    }
    if (planted.more > 0) text.append(" … and ").append(std::to_string(planted.more)).append(" more");
    if (planted.cut) text += " (not all directories were looked at)";
    return text + '\n';
}

}  // namespace callgate
