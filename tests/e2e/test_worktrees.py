"""Worktrees and submodules: git works there by the default profile, and the rest of the repository stays closed."""
from __future__ import annotations

import json
import os
import re
import time

import pytest

import harness

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
MAIN = "git init -q -b main main && cd main && echo x > x && git add x && git commit -qm one && cd .."
SUPER = "git init -q -b main super && cd super && git -c protocol.file.allow=always submodule --quiet add ../main libs/sub && git commit -qm sub && cd .."
# Each makes a work directory, by commands outside.
PLACES = {
    "linked": (f"{MAIN} && git -C main worktree add -q ../tree -b topic && git -C main worktree add -q ../other -b other", "tree"),
    "nested": (f"{MAIN} && git -C main worktree add -q trees/one -b topic", "main/trees/one"),
    "bare": (f"{MAIN} && git clone -q --bare main parent.git && git -C parent.git worktree add -q ../tree -b topic", "tree"),
    "bare_nested": (f"{MAIN} && git clone -q --bare main all && git -C all worktree add -q topic -b topic", "all/topic"),
    "relative": (f"{MAIN} && git -C main worktree add -q ../tree -b topic && echo gitdir: ../main/.git/worktrees/tree > tree/.git && "
                 "echo ../../../../tree/.git > main/.git/worktrees/tree/gitdir", "tree"),
    "submodule": (f"{MAIN} && {SUPER}", "super/libs/sub"),
}


def place(box, name):
    script, where = PLACES[name]
    made = box.run(["/bin/sh", "-ec", script], supervised=False, env=IDENTITY)
    assert made.code == 0, made.describe()
    return box.tree / where


def works(box, script, cwd, options=()):
    result = box.run(["/bin/sh", "-ec", script], options=["--ask", "never", *options], env=IDENTITY, cwd=cwd)
    denied = [one for one in result.decisions(verdict="deny") if one["callgate"]["mechanism"] != "filtered"]
    assert result.code == 0 and not denied and not result.report["denials"], result.describe()
    return result


def outside(box, cwd, *line):
    return box.run(list(line), supervised=False, cwd=cwd, env=IDENTITY).text.strip()


@pytest.mark.parametrize("name", PLACES)
def test_everyday_git_works(box, name):
    there = place(box, name)
    works(box, "git status && echo y > y && git add y && git commit -qm two && git branch side && git tag t && git stash list && git log --oneline", there)
    works(box, "git checkout -q side && echo z > z && git add z && git commit -qm three && git checkout -q - && echo w > w && git add w && "
               "git commit -qm four && git rebase -q side && git reset -q --soft HEAD~1 && git commit -qm again && git gc -q && git prune && git repack -adq", there)
    assert outside(box, there, "git", "log", "--format=%s").splitlines()[:3] == ["again", "three", "two"]
    assert outside(box, there, "git", "fsck", "--no-dangling") == ""


TRACKED = ("git config user.name somebody && git config lfs.repositoryformatversion 0 && git remote add up https://example.org/x.git && git update-ref refs/remotes/up/main HEAD && "
           "git checkout -q -b tracked --track up/main && git branch -q --set-upstream-to up/main side && "
           'common=$(git rev-parse --git-common-dir) && mkdir -p "$common/lfs/objects" && echo x > "$common/lfs/objects/x"')


@pytest.mark.parametrize("name", ["linked", "bare", "submodule"])
def test_settings_of_the_repository_change_key_by_key(box, name):
    there = place(box, name)
    works(box, f"git branch side && {TRACKED}", there)
    assert outside(box, there, "git", "for-each-ref", "--format=%(upstream:short)", "refs/heads/side", "refs/heads/tracked").split() == ["up/main", "up/main"]
    common = there / outside(box, there, "git", "rev-parse", "--git-common-dir")
    before = (common / "config").read_bytes()
    refused = box.run(["git", "config", "core.hooksPath", "/x"], options=["--ask", "never"], cwd=there)
    assert refused.code != 0 and "core.hookspath is no setting that a run may change" in refused.errors, refused.describe()
    assert (common / "config").read_bytes() == before and not list(common.glob("*.lock"))


@pytest.mark.parametrize("name", PLACES)
def test_a_fetch_works(box, name):
    there = place(box, name)
    outside(box, box.tree, "/bin/sh", "-ec", "git clone -q main up && cd up && git commit -q --allow-empty -m up")
    box.run(["git", "remote", "add", "there", str(box.tree / "up")], supervised=False, cwd=there)
    works(box, "git fetch -q there && git merge -q --ff-only there/main && git checkout -q -b pushed && git push -q -u there pushed", there,
          ["--write", str(box.tree / "up")])
    assert outside(box, there, "git", "log", "-1", "--format=%s", "@{push}") == "up"


@pytest.mark.parametrize("name", [*PLACES, "main"])
def test_a_worktree_is_added_beneath_the_work_directory(box, name):
    there = place(box, "linked" if name == "main" else name)
    there = box.tree / "main" if name == "main" else there
    works(box, "git worktree add -q made -b made && cd made && echo m > m && git add m && git commit -qm made && git worktree list && "
               "git rebase -q --force-rebase HEAD~1 && git gc -q && cd .. && git worktree move made moved && git -C moved status && "
               "git worktree remove moved", there)
    assert outside(box, there, "git", "log", "-1", "--format=%s", "refs/heads/made") == "made"


def test_a_submodule_works_from_the_repository_above(box):
    place(box, "submodule")
    works(box, "cd libs/sub && git checkout -q -b side && echo y > y && git add y && git commit -qm two && cd ../.. && git add libs/sub && "
               "git commit -qm moved && git submodule status && git submodule --quiet foreach true", box.tree / "super")
    assert outside(box, box.tree / "super/libs/sub", "git", "log", "-1", "--format=%s") == "two"


@pytest.mark.parametrize("made", ["git clone -q super tree", "git -C super worktree add -q ../tree -b topic",
                                  "git clone -q --bare super all.git && git -C all.git worktree add -q ../tree -b topic"], ids=["clone", "linked", "bare"])
def test_a_submodule_comes_with_its_links(box, made):
    """git tries whether it can make links, in its own directory of the submodule. If it could not, it would write files in their place."""
    add = f"git -c protocol.file.allow=always submodule --quiet add {box.tree}/up libs/up"
    outside(box, box.tree, "/bin/sh", "-ec", "git init -q up && cd up && ln -s x link && git add link && git commit -qm up && cd .. && "
            f"git init -q super && cd super && {add} && git commit -qm sub && cd .. && {made} && git -C tree submodule --quiet init")
    works(box, "git -c protocol.file.allow=always submodule --quiet update", box.tree / "tree", ["--write", str(box.tree / "up"), "--execute", str(box.tree / "up")])
    assert (box.tree / "tree/libs/up/link").is_symlink() and outside(box, box.tree / "tree", "git", "status", "-s") == ""


def test_hooks_of_the_repository_run(box):
    there = place(box, "linked")
    hook = box.file(box.tree / "main/.git/hooks/pre-commit", b"#!/bin/sh\necho ran > hooked\n", 0o755)
    works(box, "echo y > y && git add y && git commit -qm two", there)
    assert (there / "hooked").exists() and hook.exists()


def test_an_old_pointer_is_no_obstacle(box):
    """git writes it again when it is older than a day. A run of thirty days is no longer than that."""
    there = place(box, "linked")
    pointer = box.tree / "main/.git/worktrees/tree/gitdir"
    was = pointer.read_bytes()
    os.utime(pointer, (1, 1))
    works(box, "git status", there)
    assert pointer.read_bytes() == was and pointer.stat().st_mtime > time.time() + 29 * 86400


def test_a_repository_apart_is_opened_where_it_names_the_work_tree(box):
    made = box.run(["/bin/sh", "-ec", f"{MAIN} && git clone -q --separate-git-dir apart.git main work"], supervised=False, env=IDENTITY)
    there, config = box.tree / "work", box.tree / "apart.git/config"
    closed = box.run(["git", "log"], options=["--ask", "never"], cwd=there)
    remedy = f"git config core.worktree {there}"
    assert made.code == 0 and closed.code != 0 and f"{config} names no work tree: if they belong together, run {remedy} there" in closed.errors, closed.describe()
    outside(box, box.tree / "apart.git", *remedy.split())
    works(box, "echo y > y && git add y && git commit -qm two && git checkout -q -b side --track origin/main && git gc -q", there)
    shown = box.run([str(box.callgate), "plan"], supervised=False, cwd=there)
    assert f"{there} has its repository in {box.tree / 'apart.git'}" in shown.errors, shown.describe()
    outside(box, there, "git", "config", "core.worktree", str(box.tree / "main"))
    other = box.run(["git", "log"], options=["--ask", "never"], cwd=there)
    assert other.code != 0 and f"{config} names {box.tree / 'main'}" in other.errors, other.describe()


def test_no_remedy_is_named_for_a_pointer_that_a_run_could_have_written(box):
    box.run(["/bin/sh", "-ec", f"{MAIN} && mkdir -p all/work"], supervised=False, env=IDENTITY)
    works(box, f"echo 'gitdir: {box.tree}/main/.git' > work/.git", box.tree / "all")
    result = box.run(["git", "log"], options=["--ask", "never"], cwd=box.tree / "all/work")
    assert "config names no work tree, and an earlier run could have written .git" in result.errors and "core.worktree" not in result.errors, result.describe()


def test_runs_in_the_main_work_tree_do_not_close_the_others(box):
    there = place(box, "linked")
    works(box, "git commit -q --allow-empty -m main && git worktree list", box.tree / "main")
    for turn in range(2):
        works(box, f"git commit -q --allow-empty -m tree{turn}", there)
    works(box, "git log --all --oneline", box.tree / "main")


def test_a_nested_worktree_that_was_there_before_any_run_stays_open(box):
    there = place(box, "nested")
    works(box, "cd trees/one && git commit -q --allow-empty -m two", box.tree / "main")
    works(box, "git commit -q --allow-empty -m three", there)


def test_a_worktree_that_a_run_made_stays_closed_to_the_next_start(box):
    """The run could have written both files that say so."""
    place(box, "linked")
    works(box, "git worktree add -q made", box.tree / "main")
    result = box.run(["git", "log"], options=["--ask", "never"], cwd=box.tree / "main/made")
    assert result.code != 0 and "stays closed: an earlier run could have written both" in result.errors, result.describe()
    named = re.search(r"; git works here with (--workdir \S+ --cwd \S+)$", result.errors, re.MULTILINE)
    assert named, result.describe()
    again = box.run(["git", "log", "--oneline"], None, options=["--ask", "never", *named[1].split()], cwd=box.tree / "main/made")
    assert again.code == 0 and "denied" not in again.errors, again.describe()


def test_the_main_work_tree_and_others_stay_closed(box):
    there = place(box, "linked")
    box.run(["git", "-C", "main", "worktree", "add", "-q", "../other"], supervised=False)
    for name in ("main/x", "other/x"):
        result = box.run(["/bin/cat", str(box.tree / name)], options=["--ask", "never"], cwd=there)
        assert result.code != 0 and result.decisions(verdict="deny"), result.describe()


def test_a_bare_parent_opens_no_other_worktree_in_it(box):
    there = place(box, "bare_nested")
    box.run(["git", "-C", "all", "worktree", "add", "-q", "main"], supervised=False)
    result = box.run(["/bin/cat", str(box.tree / "all/main/x")], options=["--ask", "never"], cwd=there)
    assert result.code != 0 and result.decisions(verdict="deny"), result.describe()


def test_a_repository_that_others_may_write_stays_closed(box):
    there = place(box, "linked")
    (box.tree / "main/.git").chmod(0o777)
    result = box.run(["git", "log"], options=["--ask", "never"], cwd=there)
    assert result.code != 0 and "stays closed: it needs" in result.errors, result.describe()


@pytest.mark.parametrize("name", ["linked", "submodule"])
def test_what_is_open_is_said_and_on_record(box, name):
    there = place(box, name)
    result = box.run(["git", "log"], options=["--ask", "never", "-v"], cwd=there)
    kind = "is a worktree of" if name == "linked" else "is a submodule, kept in"
    common = box.tree / ("main/.git" if name == "linked" else "super/.git/modules/libs/sub")
    said = f"{there} {kind} {common}: objects and refs there are open, hooks and settings are not"
    assert said in result.errors, result.describe()
    start = next(one for one in result.audit if one["event"]["action"] == "run.start")
    assert start["callgate"]["git_common"] == str(common)
    for verb in (["plan"], ["explain", "write", str(common / "refs/heads/x")]):
        shown = box.run([str(box.callgate), *verb], supervised=False, cwd=there)
        assert said in shown.errors, shown.describe()
    shown = box.run([str(box.callgate), "explain", "--json", "write", str(common / "hooks/pre-commit")], supervised=False, cwd=there)
    assert "base.git-repository" in shown.text and json.loads(shown.text), shown.describe()


def test_quiet_says_nothing(box):
    there = place(box, "linked")
    harness.remove_tree(box.tree / "main/.git/worktrees")
    shown = box.run(["/bin/true"], options=["--ask", "never"], cwd=there)
    quiet = box.run(["/bin/true"], options=["--ask", "never", "--quiet"], cwd=there)
    assert "stays closed" in shown.errors and "stays closed" not in quiet.errors, shown.describe()
