// The names from which tools run code, by their components. The walk itself is tested by e2e.later.
#include "supervisor/run/planted.hpp"

#include <doctest/doctest.h>

using namespace callgate;

TEST_CASE("a name runs later by its last component, by its end, or by a directory above it") {
    for (const char* path : {"Makefile",
                             "a/b/package.json",
                             "lib/x.pth",
                             "a.code-workspace",
                             ".git",
                             "sub/.git",
                             ".git/config",
                             "sub/.git/config",
                             ".git/commondir",
                             ".hg/hgrc",
                             "sub/.jj/repo/config.toml",
                             ".cargo/config.toml",
                             ".config/mise/config.toml",
                             ".git/hooks/pre-commit",
                             ".git/modules/x/hooks/post-merge",
                             ".github/workflows/ci.yml",
                             "a/.github/workflows/deep/ci.yml",
                             ".vscode/tasks.json",
                             "a/.idea/b/c.xml",
                             "x.git/.git/hooks/y",
                             "bare/HEAD",
                             ".git/modules/lib/config",
                             ".git/modules/lib/commondir",
                             ".git/worktrees/one/config.worktree",
                             ".coveragerc",
                             "a/.coveragerc",
                             ".bloop/root.json",
                             ".yarn/sdks/typescript/lib/tsserver.js",
                             "a/.cargo/config",
                             ".newtool",
                             ".newer/x",
                             ".env",
                             "a/.env.local",
                             "a/.envrc.local",
                             ".git/rebase-merge/git-rebase-todo",
                             ".git/rebase-merge/strategy",
                             ".git/worktrees/one/rebase-merge/git-rebase-todo",
                             ".git/sequencer/opts",
                             "sub/.git/sequencer/opts",
                             ".git/lazygit.yml",
                             ".git/sl/config",
                             "sub/.hg/hgrc-not-shared",
                             "pitchfork.toml",
                             "a/.config/pitchfork.toml",
                             "rust-toolchain.toml",
                             "buildServer.json",
                             "a/vite.config.ts",
                             "a/.githooks/pre-push",
                             "sub/mise/conf.d/x.toml"}) {
        CAPTURE(path);
        CHECK(runs_later(path));
    }
}

TEST_CASE("a part of a component, a sample of a hook and another place do not count") {
    for (const char* path : {"Makefile.am",
                             "my-package.json",
                             "x.git/config",
                             ".git/other/config",
                             "git/config",
                             ".hg/hgrc2",
                             "repo/config.toml",
                             "cargo/config.toml",
                             "x.git/hooks/pre-commit",
                             ".git/xhooks/pre-commit",
                             "hooks/pre-commit",
                             ".git/hooks/pre-commit.sample",
                             ".github/workflow/ci.yml",
                             "x.github/workflows/ci.yml",
                             "my.vscode/tasks.json",
                             "a/.vscodex/a",
                             "a/.vscode",
                             "notes",
                             "",
                             ".git/HEAD",
                             ".git/sequencer/todo",
                             "sequencer/opts",
                             "rebase-merge/strategy",
                             "x.git/lazygit.yml",
                             "a/.git/HEAD",
                             ".gitignore",
                             "a/.newtool",
                             ".env.example",
                             "a/.env.example",
                             ".venv/bin/x",
                             ".coverage",
                             ".coverage.host.1",
                             ".yarn/cache/x.zip",
                             "cargo/config",
                             ".file.swp"}) {
        CAPTURE(path);
        CHECK_FALSE(runs_later(path));
    }
}
