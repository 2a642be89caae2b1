"""Code that waits: what a run writes in its work directory, and the user's own tools run afterwards."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.git_settings import USERS, AskedSettings, Settings
from cases.worlds.later import CODE, Bound, Linked, LinkedAll, Planted, PlantedAll
from cases.worlds.set_ids import SetId

PARAGRAPH = "Code that waits for the user"

# At the root of the work directory, where nothing of the kind is at the start.
ABSENT = {
    "git_hook": ".git/hooks/pre-commit", "git_hook_new_name": ".git/hooks/post-index-change", "git_commondir": ".git/commondir",
    "git_worktree_config": ".git/config.worktree", "git_remotes": ".git/remotes/origin", "git_branches": ".git/branches/origin",
    "hg": ".hg/hgrc", "hg_sharedpath": ".hg/sharedpath", "jj": ".jj/repo/config.toml",
    "jj_git_hook": ".jj/repo/store/git/hooks/post-update", "jj_git_commondir": ".jj/repo/store/git/commondir", "sapling": ".sl/config",
    "vscode_tasks": ".vscode/tasks.json", "vscode_settings": ".vscode/settings.json", "idea": ".idea/workspace.xml", "zed": ".zed/tasks.json",
    "claude": ".claude/settings.json", "claude_local": ".claude/settings.local.json", "cursor": ".cursor/mcp.json", "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json", "mcp": ".mcp.json", "opencode": "opencode.json", "aider": ".aider.conf.yml",
    "aider_cache": ".aider.tags.cache.v4/cache.db",
    "envrc": ".envrc", "mise": "mise.toml", "mise_hidden": ".mise.toml", "mise_folder": ".config/mise/config.toml",
    "exrc": ".exrc", "nvim": ".nvim.lua", "gdbinit": ".gdbinit", "lldbinit": ".lldbinit", "pdbrc": ".pdbrc",
    "lazygit": ".git/lazygit.yml", "sapling_in_git": ".git/sl/config",
    "branchless": ".git/branchless/config", "branchless_hooks": ".git/branchless/hooks/pre-commit", "pitchfork": "pitchfork.toml",
}

# The same of others, and names beside them that projects write.
MORE = (
    ".jj/repo", ".bzr/branch/branch.conf", ".pijul/config", "_darcs/prefs/defaults", ".vs/tasks.vs.json", ".nova/Tasks/x.json",
    ".externalToolBuilders/x.launch", ".theia/tasks.json", ".lapce/settings.toml", ".idx/dev.nix", ".git/safe/x", ".trae/mcp.json", ".kilocode/mcp.json", ".factory/mcp.json", ".junie/mcp/mcp.json", ".augment/settings.json",
    ".crush/x", ".openhands/setup.sh", ".iflow/settings.json", ".codebuddy/settings.json", ".qoder/settings.json", ".tabnine/agent/settings.json",
    ".pi/extensions/x.ts", ".amp/settings.json", ".grok/settings.json", ".vibe/config.toml", ".github/hooks/x.json",
    ".github/extensions/x/extension.mjs",
    ".github/copilot/settings.json", ".github/mcp.json", ".cline/plugins/x.js", ".cline/hooks/PreToolUse", ".clinerules/hooks/PreToolUse",
    ".kilo/kilo.json", "kilo.json", "kilo.jsonc", ".letta/settings.json", ".mastracode/hooks.json", ".commandcode/settings.json", ".mux/init",
    ".neovate/config.json", ".lite_project.lua", ".devin/hooks.v1.json", ".eca/config.json", ".codeassistant/mcp.json", ".codeartsdoer/codearts_cli.json",
    ".agents/hooks.json", ".agents/mcp_config.json", ".agents/hooks/x", ".agents/plugins/x/hooks.json", ".agents/x.ts", ".agents/x/y.ts", "gptme.toml", "gptme.local.toml",
    ".versions.conf", ".ruby-env", ".rbenv-vars", ".prototools", ".prototools.production", "bin/hermit.hcl", ".shadowenv.d/500_x.lisp", ".lazy.lua",
    "crush.json", ".crush.json", ".direnv/flake-profile-1.rc", ".direnv/bin/x", ".devenv.flake.nix", ".devenv/load-exports",
    ".envrc.local", ".envrc.private", ".autoenv", ".autoenv.leave", ".autoenv_leave.zsh", ".rvmrc", "mise.dev.toml",
    ".mise.dev.toml", ".miserc.toml", ".rtx.toml", ".mise/tasks/x", ".config/mise/conf.d/x.toml", "mise/conf.d/x.toml", "mise/config.local.toml",
    "_exrc", ".vimrc", "_vimrc", ".gvimrc", ".lvimrc", ".neoconf.json", ".vim/coc-settings.json",
    ".lazygit.yml", "pitchfork.local.toml", ".config/pitchfork.toml", ".config/pitchfork.local.toml",
    "_FOSSIL_", ".fos", ".p4config", "p4config.txt", "gtags.conf", ".tool-versions", ".tmux-sessionizer", ".twm.yaml", "codebuff.json", "Session.vim", ".perldb", ".byebugrc",
    ".mcphub/servers.json", ".jedi/project.json", ".lsp/config.edn", ".omp/extensions/x.ts", ".kode/settings.json", ".pochi/config.jsonc", ".bob/mcp.json", ".cortex/settings.json",
    ".costrict/mcp.json", ".refact/integrations.d/x.yaml", ".nlsp-settings/pyright.json", ".sl/sharedpath", ".git/sl/sharedpath",
)
BESIDE = (
    "repo", ".jjx", "_darcs/prefs/author", ".vim/spell/en.add", ".github/workflows/x.yml", ".github/dependabot.yml", ".clinerules/rules.txt", "mise.txt", "mise/notes", "crush.txt",
    "head", "src/HEAD", ".env", ".aider.chat.history.md", ".direnv/python-3.11/bin/x", ".devenv/state/x", ".config/x", ".nvmrc", ".python-version", ".ruby-version", ".pre-commit-config.yaml",
    ".agents/skills/x/notes", "bin/hermit", "gptme.txt", "lazy.lua", ".fslckout", "tool-versions", "session.vim", "gtags.files", ".serena/memories/x", ".lsp/.cache/x", "fastagent.config.yaml",
)
# With it, objects and refs, the work directory itself is a repository, whose settings git reads.
BARE = 'mkdir objects refs && printf "[core]\n\tfsmonitor = %s\n" "$2" > config && echo "ref: refs/heads/x #$2" > "$1"'

# In a repository: git writes through a link there, for instance the message of a commit or of a merge. Tried with git 2.39.
FOLLOWED = (
    "COMMIT_EDITMSG", "TAG_EDITMSG", "NOTES_EDITMSG", "EDIT_DESCRIPTION", "ADD_EDIT.patch", "FETCH_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR",
    "SQUASH_MSG", "AUTO_MERGE", "BISECT_LOG", "BISECT_TERMS", "BISECT_ANCESTORS_OK", "index", "packed-refs", "shallow", "gc.pid",
    "info/sparse-checkout", "objects/info/commit-graph", "objects/pack/multi-pack-index", "logs/HEAD", "logs/refs/heads/main",
    "logs/refs/heads/any/branch", "logs/refs/remotes/origin/main", "logs/refs/notes/commits", "logs/refs/stash", "modules/lib/COMMIT_EDITMSG",
    "modules/lib/logs/refs/tXzvDRJ",
)
FOLLOWED_FOLDERS = ("objects/info", "objects/pack", "refs/heads", "logs/refs", "sequencer", "rr-cache", "worktrees")
FOLLOWED_ABOVE = ("objects", "refs", "logs", "modules")
# git itself makes a link by such a name, to see whether it can. The rest is no repository.
FREE_LINKS = (".git/tXzvDRJ", ".git/modules/lib/tXzvDRJ", ".git/modules/libs/l/lib/tXzvDRJ", ".git/worktrees/one/modules/lib/tXzvDRJ", "other", ".gitlab/other", "lib/.github/x")

RENAMED = 'mkdir -p made "$(dirname "$1")"; echo "$2" > made/file && mv made/file "$1"'
LINKED = 'mkdir -p made "$(dirname "$1")"; echo "$2" > made/file && ln made/file "$1"'
FOLDER = 'top="${1%%/*}"; mkdir -p made "made/$1" && rmdir "made/$1" && echo "$2" > "made/$1" && mv "made/$top" .'
# Instead of a lock of the user's own git, which is about to get the name of the settings.
LINKED_TO = 'ln "$1" other && echo "$2" > other'
MADE_ANEW = 'rm -f "$1" && echo "$2" > "$1"'
EXCHANGED = 'echo "$2" > made && /usr/bin/python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b\'made\', -100, sys.argv[1].encode(), 2))" "$1"'
# The directory of the name, or the third one above, comes with a link in it.
CARRIED = 'mkdir -p made "$(dirname "$(dirname "$1")")" && ln -s "$2" "made/$(basename "$1")" && mv made "$(dirname "$1")"'
CARRIED_DEEP = ('top="$(dirname "$(dirname "$(dirname "$1")")")"; mkdir -p made/refs/heads "$(dirname "$top")" && '
                'ln -s "$2" "made/refs/heads/$(basename "$1")" && mv made "$top"')
# The directory of the name changes places with one that has a link.
EXCHANGED_FOLDER = ('top="$(dirname "$1")"; mkdir -p made "$top" && ln -s "$2" made/$(basename "$1") && /usr/bin/python3 -c "import ctypes, sys; '
                    'sys.exit(ctypes.CDLL(None).renameat2(-100, b\'made\', -100, sys.argv[1].encode(), 2))" "$top"')
REPLACED = 'echo "$2" > made && mv -f made "$1"'

# In a repository: how far a rebase has come. The prompt of git's own lets the user's shell run what stands there.
COUNTS = ("rebase-merge/msgnum", "rebase-merge/end", "rebase-apply/next", "rebase-apply/last")
# A number first, which callgate writes at the next open. The code follows by what was opened.
AFTER_A_NUMBER = ('mkdir -p "$(dirname "$1")"; exec 3<> "$1"; echo 1 > "$1"; exec 4> "$1"; echo 2 >&4; cat "$1" > /dev/null; printf %s "$2" > /proc/self/fd/4; '
                  'echo "$2" >&4; echo "$2" >&3; echo "$2" 1<> /proc/self/fd/4; cat "$1"; true')
APPENDED = 'echo "$2" >> "$1"'

# attack_set_id: how a file gets a bit by which it runs as its owner.
SET_IDS = ("chmod", "chmod_old", "chmod_high", "chmod_user", "chmod_group", "chmod_link", "chmod_fd", "fchmod", "fchmodat2", "open_old", "creat",
           "openat", "openat2", "openat2_race", "mknod_old", "mknodat", "tmpfile", "socket")
# Other files of a repository's settings.
GIT_SETTINGS = {
    "worktrees": ".git/config.worktree", "module": ".git/modules/lib/config", "linked_worktree": ".git/worktrees/one/config.worktree",
    "beneath": "sub/.git/config", "bare": "sub/store.git/config",
}
# Settings that are added, and by which git would run, read or reach something.
GIT_KEYS = {
    "ssh": f"[core]\n\tsshCommand = {CODE}\n", "hooks": f"[core]\n\thooksPath = {CODE}\n", "worktree": f"[core]\n\tworktree = /{CODE}\n",
    "include": f"[include]\n\tpath = {CODE}\n", "include_if": f'[includeIf "gitdir:/"]\n\tpath = {CODE}\n', "alias": f"[alias]\n\tst = !{CODE}\n",
    "credential": f"[credential]\n\thelper = !{CODE}\n", "filter": f'[filter "x"]\n\tclean = {CODE}\n', "diff": f'[diff "x"]\n\ttextconv = {CODE}\n',
    "merge": f'[merge "x"]\n\tdriver = {CODE}\n', "url": f'[url "https://{CODE}/"]\n\tinsteadOf = https://\n',
    "uploadpack": f'[remote "origin"]\n\tuploadpack = {CODE}\n', "second_url": f'[remote "origin"]\n\turl = https://{CODE}/\n',
    "helper": f'[remote "up"]\n\turl = ext::{CODE}\n', "remote_by_url": f'[remote "https://example.org/"]\n\turl = https://{CODE}/\n',
    "branch_to_url": f'[branch "new"]\n\tremote = https://{CODE}/\n', "submodule": f'[submodule "x"]\n\tupdate = !{CODE}\n',
    "refspec": f'[remote "up"]\n\turl = https://{CODE}/\n\tfetch = +refs/heads/*:refs/heads/*\n', "gpg": f"[gpg]\n\tprogram = {CODE}\n",
    "continued": f"[user]\n\tname = a\\\n[core]\n\tpager = {CODE}\n", "returned": f"[user]\r\n\tname = a\r\n[core]\r\n\tpager = {CODE}\r\n",
}

CASES = [
    *(Case(f"set_id.{mode}", SetId(mode, named=mode != "socket")) for mode in SET_IDS),
    *(Case(f"set_id.{mode}.contested", SetId(mode, True, mode != "socket")) for mode in SET_IDS),
    *(Case(f"later.{name}", Planted(path)) for name, path in ABSENT.items()),
    Case("later.more", PlantedAll(MORE, BESIDE)),
    Case("later.bare", Planted("HEAD", BARE, free="head")),
    Case("later.bare_renamed", Planted("HEAD", RENAMED, free="head")),
    # The user's own repositories lack these files.
    Case("later.git_absent", PlantedAll((".git/worktrees/one/config.worktree", ".git/modules/lib/config.worktree", ".git/modules/lib/commondir"),
                                        (".git/worktrees/one/other", ".git/modules/lib/other", "lib/commondir"),
                                        before=(".git/HEAD", ".git/worktrees/one/HEAD", ".git/modules/lib/HEAD"))),
    Case("later.git_absent_beneath", PlantedAll(("sub/.git/commondir", "sub/.git/config", "sub/.git/config.worktree", "sub/.git/hooks/pre-commit",
                                                 "sub/.git/remotes/x", "sub/.hg/hgrc", "sub/.git/branchless/config", "sub/.git/branchless/hooks/pre-commit",
                                                 "sub/.jj/repo/store/git/config", "sub/.jj/repo/store/git/hooks/post-update", "sub/.jj/repo/store/git/commondir"),
                                                ("sub/.git/other", "sub/other", "new/.git/commondir", "sub/.jj/repo/store/git/description"),
                                                before=("sub/.git/worktrees/one/HEAD", "sub/.hg/x", "sub/.jj/repo/store/git/HEAD"))),
    # Bare ones have no .git, but mostly this end of their name, or the name that is usual beside worktrees.
    Case("later.git_bare_beneath", PlantedAll(tuple(f"{top}/{one}" for top in ("lib/store.git", ".bare") for one in (
        "config", "config.worktree", "hooks/pre-receive", "commondir", "remotes/x", "lazygit.yml")),
        ("lib/store.git/description", "lib/store.git/refs/heads/x", "lib/new.git/config", "lib/config"),
        before=("lib/store.git/HEAD", ".bare/HEAD"))),
    *(Case(f"later.git_links{name}", LinkedAll(tuple(f"{top}.git/{one}" for top in ("", "lib/") for one in names), FREE_LINKS))
      for name, names in (("", FOLLOWED), ("_folders", FOLLOWED_FOLDERS), ("_above", FOLLOWED_ABOVE))),
    # Bare ones beside whose worktrees the user commits, and what Jujutsu keeps.
    Case("later.git_links_bare", LinkedAll(
        (*(f"{top}/{one}" for top in (".bare", "lib/store.git") for one in ("worktrees/one/COMMIT_EDITMSG", "FETCH_HEAD", "logs/refs/heads/x")),
         ".jj/repo/store/git/FETCH_HEAD"),
        (".bare/tXzvDRJ", "lib/store.git/tXzvDRJ", ".bare/worktrees/one/modules/lib/tXzvDRJ", ".jj/repo/store/git/tXzvDRJ", "lib/store.github/x", ".jj/x"))),
    Case("later.git_links_bare_carried", Linked("lib/store.git/worktrees/one/MERGE_MSG", CARRIED, free="lib/deep/link")),
    Case("later.git_links_renamed", Linked(".git/MERGE_MSG", before=(".git/", ".git/MERGE_MSG"))),
    *(Case(f"later.git_links_carried{name}", Linked(path, CARRIED, free="lib/deep/link"))
      for name, path in (("", ".git/COMMIT_EDITMSG"), ("_beneath", "lib/.git/MERGE_MSG"))),
    Case("later.git_links_carried_deep", Linked("lib/.git/logs/refs/heads/x", CARRIED_DEEP, free="lib/deep/logs/refs/heads/x")),
    Case("later.git_links_exchanged", Linked("lib/.git/logs/x", EXCHANGED_FOLDER, free="lib/deep/logs/x")),
    Case("later.git_counts", PlantedAll(
        tuple(f"{top}/{one}" for top in (".git", ".git/worktrees/one", ".git/modules/lib", "sub/.git", "sub/.git/worktrees/one",
                                         "lib/store.git", ".bare/worktrees/one") for one in COUNTS),
        (".git/rebase-merge/done", ".git/rebase-apply/0001", ".git/worktrees/one/rebase-merge/author-script", "sub/rebase-merge/msgnum", "sub/.git/next"),
        before=("sub/.git/HEAD", "sub/.git/worktrees/one/HEAD", "lib/store.git/HEAD", ".bare/worktrees/one/HEAD", ".bare/HEAD"))),
    *(Case(f"later.git_count_{way}", Planted(".git/rebase-merge/msgnum", script, free=".git/rebase-merge/done", before=before))
      for way, script, before in (("renamed", RENAMED, ()), ("linked", LINKED, ()), ("after_a_number", AFTER_A_NUMBER, ()),
                                  ("appended", APPENDED, (".git/", ".git/rebase-merge/", ".git/rebase-merge/msgnum", ".git/rebase-merge/done")),
                                  ("exchanged", EXCHANGED, (".git/", ".git/rebase-merge/", ".git/rebase-merge/msgnum", ".git/rebase-merge/done")))),
    Case("later.git_count_carried", Planted(".git/rebase-apply/next", FOLDER, free=".git/rebase-apply/0001")),
    Case("later.bound_git", Bound(".git")),
    Case("later.bound_hook", Bound(".git/hooks/pre-commit", before=(".git/", ".git/hooks/"))),
    Case("later.jj_file_renamed", Planted(".jj/repo", 'mkdir .jj && echo "$2" > made && mv made "$1"', free=".jj/other")),
    # By other ways than writing.
    Case("later.renamed", Planted(".envrc", RENAMED)),
    Case("later.linked", Planted(".mcp.json", LINKED)),
    Case("later.folder", Planted(".vscode/tasks.json", FOLDER, free="lib/tasks.json")),
    Case("later.folder_hooks", Planted(".git/hooks/pre-commit", FOLDER, free=".git/objects/pack")),
    # A repository that the user has.
    Case("later.git_config_there", Planted(".git/config", REPLACED, before=(".git/", ".git/config"))),
    Case("later.git_hook_there", Planted(".git/hooks/pre-push", before=(".git/", ".git/hooks/"))),
    Case("later.git_hooks_folder", Planted(".git/hooks/pre-commit.d/1", before=(".git/", ".git/hooks/", ".git/hooks/pre-commit.d/"))),
    Case("later.git_config_beneath", Planted("sub/.git/config", REPLACED, before=("sub/.git/config",))),
    Case("later.git_worktree_commondir", Planted(".git/worktrees/one/commondir", REPLACED, before=(".git/", ".git/worktrees/", ".git/worktrees/one/",
                                                                                                  ".git/worktrees/one/commondir"))),
    Case("later.git_file_beneath", Planted("sub/.git", REPLACED, before=("sub/.git",))),
    Case("later.envrc_beneath", Planted("sub/.envrc", REPLACED, before=("sub/.envrc",))),
    # A .git that is no directory names another repository.
    Case("later.git_file", Planted(".git", 'echo "gitdir: $2" > "$1"')),
    Case("later.git_file_renamed", Planted(".git", 'echo "gitdir: $2" > made && mv made "$1"')),
    Case("later.git_file_linked", Planted(".git", 'echo "gitdir: $2" > made && ln made "$1"')),
    Case("later.git_file_instead", Planted(".git", 'mv .git away 2> /dev/null; echo "gitdir: $2" > "$1"', before=(".git/", ".git/config"))),
    # A repository's settings, of which a run may change some.
    *(Case(f"later.git_settings_{way}", Settings(way)) for way in (
        "plain", "kept", "mapped", "linked", "raced", "before_its_name", "another_instead", "symbolic", "exchanged", "linked_instead",
        "made_anew", "in_its_folder", "written", "sent")),
    *(Case(f"later.git_settings_{way}", Settings(way, absent=True)) for way in ("created", "created_reopened", "created_linked", "created_moved")),
    *(Case(f"later.git_lock_{name}", Planted(".git/config.lock", way, free=".git/other.lock", before=(".git/", ".git/config", ".git/config.lock", ".git/other.lock")))
      for name, way in (("written", 'echo "$2" >> "$1"'), ("renamed", REPLACED), ("linked", LINKED_TO), ("made_anew", MADE_ANEW), ("exchanged", EXCHANGED))),
    *(Case(f"later.git_settings_{name}_{way}", Settings(way, path)) for name, path in GIT_SETTINGS.items() for way in ("plain", "kept")),
    *(Case(f"later.git_key_{name}", Settings(added=added)) for name, added in GIT_KEYS.items()),
    Case("later.git_remote_changed", Settings(wanted=USERS.replace("example.org", CODE))),
    Case("later.git_remote_drawing", Settings(wanted=USERS.replace("https://example.org", '"https://x\\b\\b\\bexample.org"'))),
    Case("later.git_remote_escaping", Settings(wanted=USERS.replace("example.org", "\x1b[2Jexample.org"))),
    *(Case(f"later.git_asked_{way}", AskedSettings(way)) for way in ("deny", "swapped", "replaced", "removed", "kept", "granted")),
    Case("later.git_branch_changed", Settings(wanted=USERS.replace("heads/main", f"heads/{CODE}"))),
]
