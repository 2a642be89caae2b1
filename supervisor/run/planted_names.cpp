#include "supervisor/run/planted_names.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/words.hpp"

namespace callgate {
namespace {

// Each list is words with a space between them. A tool runs code from the held names without a further
// command, or where its user only opens the directory. docs/threat-model.md has both lists.

/// Everything in such a directory counts.
constexpr std::string_view names_of_held_directories =
    ".vscode .vs .idea .zed .fleet .helix .nova .theia .lapce .idx .externalToolBuilders .claude .codex "
    ".cursor .gemini "
    ".continue "
    ".windsurf .roo .kiro .qwen .opencode .amazonq .trae .kilocode .factory .junie .augment .crush "
    ".openhands "
    ".iflow .codebuddy .qoder .tabnine .pi .amp .grok .vibe .cline .mise .kilo .letta "
    ".mastracode .commandcode .mux .neovate .devin .eca .codeassistant .codeartsdoer .shadowenv.d "
    ".mcphub .nlsp-settings .jedi .omp .kode .pochi .bob .cortex .costrict .refact";
constexpr std::string_view names_of_shown_directories =
    ".husky .githooks .lefthook .devcontainer .circleci .mvn .bsp .bloop";

/// Names of files that count anywhere.
constexpr std::string_view names_of_held_files =
    ".git .envrc .envrc.local .envrc.private .mcp.json .aider.conf.yml opencode.json opencode.jsonc "
    "crush.json "
    ".crush.json kilo.json kilo.jsonc .lite_project.lua .mise.toml mise.toml .mise.local.toml "
    "mise.local.toml .miserc.toml .rtx.toml .autoenv "
    ".autoenv.leave .autoenv.zsh .autoenv_leave.zsh .rvmrc .exrc _exrc .vimrc _vimrc .gvimrc .lvimrc .nvimrc "
    ".nvim.lua .lazy.lua .neoconf.json .gdbinit .lldbinit .pdbrc .lazygit.yml pitchfork.toml "
    "pitchfork.local.toml gptme.toml gptme.local.toml .versions.conf .ruby-env .rbenv-vars .prototools "
    "_FOSSIL_ .fos .p4config p4config.txt gtags.conf .tool-versions .tmux-sessionizer .twm.yaml "
    "codebuff.json "
    "Session.vim "
    ".perldb .byebugrc";
constexpr std::string_view names_of_shown_files =
    "package.json package-lock.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml bunfig.toml deno.json "
    "deno.jsonc "
    ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs turbo.json nx.json Makefile makefile GNUmakefile "
    "CMakeLists.txt "
    "CMakePresets.json meson.build configure SConstruct Cargo.toml Cargo.lock build.rs build.zig setup.py "
    "setup.cfg "
    "pyproject.toml tox.ini noxfile.py tasks.py dodo.py conftest.py sitecustomize.py usercustomize.py "
    ".pylintrc "
    "pylintrc .Rprofile .Renviron .irbrc .pryrc .ghci .iex.exs .ocamlinit .rspec .rubocop.yml .dir-locals.el "
    ".ycm_extra_conf.py .clangd .project .pre-commit-config.yaml lefthook.yml .lefthook.yml .overcommit.yml "
    ".bazelrc "
    "WORKSPACE MODULE.bazel BUILD BUILD.bazel .gitmodules .lfsconfig "
    ".gitlab-ci.yml "
    ".coveragerc gulpfile.js Gruntfile.js ansible.cfg build.xml CMakeUserPresets.json Directory.Build.props "
    "Directory.Build.targets "
    ".travis.yml azure-pipelines.yml Jenkinsfile .devcontainer.json justfile Justfile Rakefile Gemfile "
    "Guardfile "
    "Vagrantfile Dockerfile compose.yaml docker-compose.yml Procfile Taskfile.yml build.gradle "
    "build.gradle.kts "
    "settings.gradle gradle.properties gradlew mvnw pom.xml build.sbt composer.json mix.exs flake.nix "
    "shell.nix "
    "default.nix devenv.nix devbox.json rust-toolchain rust-toolchain.toml global.json Package.swift "
    "buildServer.json "
    "compose.yml docker-compose.yaml Taskfile.yaml settings.gradle.kts prek.toml lefthook.yaml lefthook.toml "
    "lefthook.json hk.pkl gems.rb config.ru artisan phpunit.xml phpunit.xml.dist phpunit.dist.xml hie.yaml "
    "Steepfile lefthook-local.yml lefthook-local.yaml lefthook-local.toml lefthook-local.json "
    ".lefthook-local.yml "
    "captainhook.json grumphp.yml simple-git-hooks.json simple-git-hooks.js simple-git-hooks.cjs "
    "docker-compose.override.yml docker-compose.override.yaml compose.override.yml compose.override.yaml "
    "pytest.ini pytest.toml mypy.ini latexmkrc config.nims "
    "fastagent.config.yaml fast-agent.config.yaml .merlin psalm.xml psalm.xml.dist "
    "phpstan.neon phpstan.neon.dist phpstan.dist.neon rector.php .cproject .factorypath .kateproject "
    ".RData .octaverc .psysh.php .proverc .latexmkrc .jdbrc jdb.ini .valgrindrc";

/// Ends of paths that count.
constexpr auto held_ends = std::to_array<std::string_view>({".git/config",
                                                            ".git/config.worktree",
                                                            ".git/commondir",
                                                            ".git/lazygit.yml",
                                                            ".git/sl/config",
                                                            ".git/sl/sharedpath",
                                                            ".git/branchless/config",
                                                            ".hg/hgrc",
                                                            ".hg/hgrc-not-shared",
                                                            ".hg/sharedpath",
                                                            ".jj/repo",
                                                            ".jj/repo/config.toml",
                                                            ".jj/repo/store/git/config",
                                                            ".jj/repo/store/git/commondir",
                                                            ".sl/config",
                                                            ".sl/sharedpath",
                                                            ".bzr/branch/branch.conf",
                                                            ".pijul/config",
                                                            ".devenv.flake.nix",
                                                            ".devenv/load-exports",
                                                            "_darcs/prefs/defaults",
                                                            ".vim/coc-settings.json",
                                                            ".config/mise.toml",
                                                            ".config/mise/config.toml",
                                                            "mise/config.toml",
                                                            ".agents/hooks.json",
                                                            ".agents/mcp_config.json",
                                                            "bin/hermit.hcl",
                                                            ".lsp/config.edn",
                                                            ".github/mcp.json"});
constexpr auto shown_ends = std::to_array<std::string_view>(
    {".cargo/config.toml", ".cargo/config", ".serena/project.yml", ".settings/language.settings.xml",
     ".serena/project.local.yml", "gradle/wrapper/gradle-wrapper.properties"});

/// Directories in which everything counts, by more than one component.
constexpr auto places = std::to_array<std::string_view>(
    {".github/workflows/", ".github/actions/", ".github/hooks/", ".github/extensions/", ".github/copilot/",
     ".gitea/workflows/", ".forgejo/workflows/", ".direnv/bin/", ".yarn/releases/", ".yarn/plugins/",
     ".yarn/sdks/", ".clinerules/hooks/", ".config/mise/", "mise/conf.d/", ".agents/hooks/",
     ".agents/plugins/"});

/// Hidden names at the top of the work directory that are known to run nothing. Any other counts: no list of
/// tools is whole.
constexpr std::string_view harmless_names =
    ".git .hg .jj .sl .svn .bzr .pijul .github .yarn .venv .tox .nox .cache .pytest_cache .mypy_cache "
    ".ruff_cache "
    ".hypothesis .ipynb_checkpoints .eggs .next .nuxt .svelte-kit .astro .angular .vite .turbo .parcel-cache "
    ".sass-cache .eslintcache .stylelintcache .nyc_output .pnpm-store .gradle .dart_tool .build .stack-work "
    ".ccls-cache .metals .deps .libs .ninja_deps .ninja_log .gitattributes .gitkeep "
    ".mailmap "
    ".editorconfig .DS_Store .keep";

/// The words of a list, for as many look-ups as a tree has names.
class Names {
public:
    explicit Names(std::string_view words) {
        for (std::size_t space = 0; space != std::string_view::npos; words.remove_prefix(space + 1)) {
            space = words.find(' ');
            all_.insert(words.substr(0, space));
            if (space == std::string_view::npos) break;
        }
    }
    [[nodiscard]] bool hold(std::string_view name) const { return all_.contains(name); }

private:
    std::unordered_set<std::string_view> all_;
};

struct Lists {
    Names held_directories{names_of_held_directories}, shown_directories{names_of_shown_directories};
    Names held_files{names_of_held_files}, shown_files{names_of_shown_files};
    Names harmless{harmless_names};
};

const Lists& lists() {
    static const Lists all;
    return all;
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

bool has(std::string_view directory, std::string_view component) {
    return find_component(directory, component) != std::string_view::npos;
}

bool is_harmless(std::string_view name) {
    return lists().harmless.hold(name) || name == ".coverage" || name.starts_with(".coverage.") ||
           name.starts_with(".nfs") ||
           std::ranges::any_of(std::to_array<std::string_view>({"ignore", ".swp", ".lock", ".log", ".tmp",
                                                                "cache", ".example", ".sample"}),
                               [&](std::string_view end) { return name.ends_with(end); });
}

/// Whether a name at the top of the work directory is hidden, and not known to run nothing.
Found hidden(std::string_view name) {
    return name.starts_with('.') && !is_harmless(name) ? Found(Urgency::unknown) : std::nullopt;
}

/// Settings of a repository or worktree that git keeps in another one.
bool is_kept_by_git(std::string_view directory, std::string_view name) {
    return name == "config.worktree"
               ? has(directory, ".git/")
               : (name == "config" || name == "commondir") && has(directory, ".git/modules/");
}

/// Git carries it out when the user goes on with a rebase, or with picking commits. A strategy names a
/// program, and an option of `git apply` a file that it writes.
bool is_carried_on(std::string_view directory, std::string_view name) {
    return has(directory, ".git/") &&
           ((ends_in(directory, "rebase-merge/") && (name == "git-rebase-todo" || name == "strategy")) ||
            (ends_in(directory, "rebase-apply/") && name == "apply-opt") ||
            (ends_in(directory, "sequencer/") && name == "opts"));
}

/// Settings that are read as variables: a variable can name a library to load.
bool is_dotenv(std::string_view name) {
    return name == ".env" ||
           (name.starts_with(".env.") && !has_word("example sample template dist defaults", name.substr(5)));
}

template <typename Ends>
bool is_end(const Ends& all, std::string_view directory, std::string_view name) {
    return std::ranges::any_of(all, [&](std::string_view end) {
        const std::size_t leaf = end.rfind('/') + 1;
        return name == end.substr(leaf) && ends_in(directory, end.substr(0, leaf));
    });
}

}  // namespace

Counted counted_in(std::string_view directory) {
    if (has(directory, ".git/") && has(directory, "hooks/")) return {Urgency::at_once, true};
    Counted found;
    if (std::ranges::any_of(places, [&](std::string_view one) { return has(directory, one); }))
        found.all = Urgency::next_command;
    for (std::size_t first = 0, slash = 0; (slash = directory.find('/', first)) != std::string_view::npos;
         first = slash + 1) {
        const std::string_view component = directory.substr(first, slash - first);
        if (lists().held_directories.hold(component)) return {Urgency::at_once};
        if (lists().shown_directories.hold(component)) found.all = Urgency::next_command;
        if (first == 0 && !found.all) found.all = hidden(component);
    }
    return found;
}

Found urgency(std::string_view directory, const Counted& counted, std::string_view name) {
    // A directory with HEAD is a repository where `objects` and `refs` are beside it: git runs its settings.
    if (lists().held_files.hold(name) || is_end(held_ends, directory, name) ||
        (name == "HEAD" && !has(directory, ".git/")) || is_kept_by_git(directory, name))
        return Urgency::at_once;
    if (counted.hooks) return name.ends_with(".sample") ? Found() : Urgency::at_once;
    if (counted.all && *counted.all != Urgency::unknown) return counted.all;
    if (lists().shown_files.hold(name) || is_end(shown_ends, directory, name) || is_dotenv(name) ||
        is_carried_on(directory, name) ||
        std::ranges::any_of(std::to_array<std::string_view>(
                                {".pth", ".code-workspace", ".sublime-project", ".config.js", ".config.cjs",
                                 ".config.mjs", ".config.ts", ".config.mts", "rc.js", "rc.cjs", "rc.mjs"}),
                            [&](std::string_view end) { return name.ends_with(end); }))
        return Urgency::next_command;
    return counted.all ? counted.all : directory.empty() ? hidden(name) : std::nullopt;
}

Found urgency_of_link(std::string_view directory, const Counted& counted, std::string_view name) {
    const auto leads_to = [&](std::string_view end) {
        for (std::size_t slash = end.find('/'); slash != std::string_view::npos;
             slash = end.find('/', slash + 1)) {
            const std::size_t leaf = end.rfind('/', slash - 1) + 1;  // 0 if there is none
            if (name == end.substr(leaf, slash - leaf) && ends_in(directory, end.substr(0, leaf)))
                return true;
        }
        return false;
    };
    if (lists().held_directories.hold(name) || has(directory, ".git/") ||
        std::ranges::any_of(held_ends, leads_to))
        return Urgency::at_once;
    if (lists().shown_directories.hold(name) || std::ranges::any_of(shown_ends, leads_to) ||
        std::ranges::any_of(places, leads_to))
        return Urgency::next_command;
    return urgency(directory, counted, name);
}

}  // namespace callgate
