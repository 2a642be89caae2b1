"""Code that waits: what a run writes in its work directory, and the user's own tools run afterwards."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.later import Planted
from cases.worlds.set_ids import SetId

PARAGRAPH = "Code that waits for the user"

# At the root of the work directory, where nothing of the kind is at the start.
ABSENT = {
    "git_hook": ".git/hooks/pre-commit", "git_hook_new_name": ".git/hooks/post-index-change", "git_commondir": ".git/commondir",
    "git_worktree_config": ".git/config.worktree", "git_remotes": ".git/remotes/origin", "git_branches": ".git/branches/origin",
    "hg": ".hg/hgrc", "hg_sharedpath": ".hg/sharedpath", "jj": ".jj/repo/config.toml", "sapling": ".sl/config",
    "vscode_tasks": ".vscode/tasks.json", "vscode_settings": ".vscode/settings.json", "idea": ".idea/workspace.xml", "zed": ".zed/tasks.json",
    "claude": ".claude/settings.json", "claude_local": ".claude/settings.local.json", "cursor": ".cursor/mcp.json", "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json", "mcp": ".mcp.json", "opencode": "opencode.json", "aider": ".aider.conf.yml",
    "envrc": ".envrc", "mise": "mise.toml", "mise_hidden": ".mise.toml", "mise_folder": ".config/mise/config.toml",
    "exrc": ".exrc", "nvim": ".nvim.lua", "gdbinit": ".gdbinit", "lldbinit": ".lldbinit", "pdbrc": ".pdbrc",
}

RENAMED = 'mkdir -p made "$(dirname "$1")"; echo "$2" > made/file && mv made/file "$1"'
LINKED = 'mkdir -p made "$(dirname "$1")"; echo "$2" > made/file && ln made/file "$1"'
FOLDER = 'top="${1%%/*}"; mkdir -p made "made/$1" && rmdir "made/$1" && echo "$2" > "made/$1" && mv "made/$top" .'
REPLACED = 'echo "$2" > made && mv -f made "$1"'

# attack_set_id: how a file gets a bit by which it runs as its owner.
SET_IDS = ("chmod", "chmod_old", "chmod_high", "chmod_user", "chmod_group", "chmod_link", "chmod_fd", "fchmod", "fchmodat2", "open_old", "creat",
           "openat", "openat2", "openat2_race", "mknod_old", "mknodat", "tmpfile", "socket")

CASES = [
    *(Case(f"set_id.{mode}", SetId(mode, named=mode != "socket")) for mode in SET_IDS),
    *(Case(f"set_id.{mode}.contested", SetId(mode, True, mode != "socket")) for mode in SET_IDS),
    *(Case(f"later.{name}", Planted(path)) for name, path in ABSENT.items()),
    # By other ways than writing.
    Case("later.renamed", Planted(".envrc", RENAMED)),
    Case("later.linked", Planted(".mcp.json", LINKED)),
    Case("later.folder", Planted(".vscode/tasks.json", FOLDER, free="lib/tasks.json")),
    Case("later.folder_hooks", Planted(".git/hooks/pre-commit", FOLDER, free=".git/objects/pack")),
    # A repository that the user has.
    Case("later.git_config_there", Planted(".git/config", REPLACED, before=(".git/", ".git/config"))),
    Case("later.git_hook_there", Planted(".git/hooks/pre-push", before=(".git/", ".git/hooks/"))),
    Case("later.git_config_beneath", Planted("sub/.git/config", REPLACED, before=("sub/.git/config",))),
    Case("later.git_file_beneath", Planted("sub/.git", REPLACED, before=("sub/.git",))),
    Case("later.envrc_beneath", Planted("sub/.envrc", REPLACED, before=("sub/.envrc",))),
    # A .git that is no directory names another repository.
    Case("later.git_file", Planted(".git", 'echo "gitdir: $2" > "$1"')),
    Case("later.git_file_renamed", Planted(".git", 'echo "gitdir: $2" > made && mv made "$1"')),
    Case("later.git_file_linked", Planted(".git", 'echo "gitdir: $2" > made && ln made "$1"')),
    Case("later.git_file_instead", Planted(".git", 'mv .git away 2> /dev/null; echo "gitdir: $2" > "$1"', before=(".git/", ".git/config"))),
]
