"""Pointers to repositories: a `.git` that is a file, and what a worktree reaches by it."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.pointers import WAYS, Changed, Pointer

PARAGRAPH = "Repositories of worktrees and submodules"

# Files that a run in the worktree `tree` of the repository `main` may not change.
HELD = {
    "hook": "main/.git/hooks/pre-commit", "config": "main/.git/config", "config_worktree": "main/.git/config.worktree",
    "alternates": "main/.git/objects/info/alternates", "head": "main/.git/HEAD", "index": "main/.git/index", "attributes": "main/.git/info/attributes",
    "gitdir": "main/.git/worktrees/tree/gitdir", "commondir": "main/.git/worktrees/tree/commondir", "own_config": "main/.git/worktrees/tree/config.worktree",
    "other_head": "main/.git/worktrees/other/HEAD", "other_gitdir": "main/.git/worktrees/other/gitdir", "git_file": "tree/.git",
    "main_tree": "main/file", "info": "main/.git/info/exclude",
}
LOCKS = {"settings": "main/.git/config.lock", "head": "main/.git/HEAD.lock", "other": "main/.git/worktrees/other/HEAD.lock"}
RENAMED = 'echo PLANTED > made && mv -f made "$1"'
LINKED = 'echo PLANTED > made && ln -f made "$1"'
ANEW = 'rm -f "$1"; echo PLANTED > "$1"'
# git asks for the change: the settings that its value names would run.
BY_GIT = 'git config --file "$1" core.hooksPath PLANTED'
MOVED = 'top="${1%/*}"; mkdir made && cp -r "$top/." made && echo PLANTED > "made/${1##*/}" && mv -T "$top" "$top.away" && mv -T made "$top"'

CASES = [
    *(Case(f"pointer.{way}", Pointer(way)) for way in WAYS),
    *(Case(f"worktree.{name}", Changed(path)) for name, path in HELD.items()),
    *(Case(f"worktree.{name}_renamed", Changed(HELD[name], RENAMED)) for name in ("hook", "config", "gitdir", "commondir", "alternates", "other_head")),
    *(Case(f"worktree.lock_{name}", Changed(path, ANEW, there=True)) for name, path in LOCKS.items()),
    Case("worktree.settings", Changed("main/.git/config", BY_GIT)),
    Case("worktree.settings_bare", Changed("all.git/config", BY_GIT, start="all-tree")),
    Case("worktree.settings_module", Changed("super/.git/modules/sub/config", BY_GIT, start="super/sub")),
    *(Case(f"worktree.{name}_linked", Changed(HELD[name], LINKED)) for name in ("hook", "commondir")),
    *(Case(f"worktree.{name}_moved", Changed(HELD[name], MOVED)) for name in ("hook", "gitdir", "alternates")),
]
