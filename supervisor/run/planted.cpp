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
    void look_at(int parent, const std::string& directory, const dirent& entry);

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

void Walk::look_at(int parent, const std::string& directory, const dirent& entry) {
    const std::string_view name = entry.d_name;
    if (name == "." || name == "..") return;
    ++seen_;
    std::string path = directory + entry.d_name;
    bool is_directory = entry.d_type == DT_DIR;
    struct stat status {};
    const bool counts = runs_later(path);
    if ((counts && !is_directory) || entry.d_type == DT_UNKNOWN) {
        if (::fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
        is_directory = S_ISDIR(status.st_mode);
    }
    if (is_directory) {
        if (enters(directory, name)) left_.push_back(path + '/');
    } else if (counts && not_before(status.st_ctim, since_) && !held_(workdir_ + '/' + path)) {
        result_.paths.push_back(std::move(path));
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
    while (const dirent* entry = ::readdir(stream.get())) {
        if (seen_ >= max_entries) return false;
        look_at(number, directory, *entry);
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
    const std::size_t slash = path.rfind('/');
    const std::string_view leaf = slash == std::string_view::npos ? path : path.substr(slash + 1);
    if (among(files, leaf) || leaf.ends_with(".pth") || leaf.ends_with(".code-workspace")) return true;
    const std::string rooted = '/' + std::string(path);
    if (std::any_of(ends.begin(), ends.end(),
                    [&](std::string_view end) { return rooted.ends_with('/' + std::string(end)); }))
        return true;
    if (rooted.find("/.git/") != std::string::npos && rooted.find("/hooks/") != std::string::npos)
        return !leaf.ends_with(".sample");
    if (rooted.find("/.github/workflows/") != std::string::npos) return true;
    return std::any_of(directories.begin(), directories.end(), [&](std::string_view one) {
        return rooted.find('/' + std::string(one) + '/') != std::string::npos;
    });
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
