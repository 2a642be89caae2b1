"""Repositories of worktrees and submodules: earlier runs leave pointers, and the next start comes through them."""
from __future__ import annotations

import dataclasses
from pathlib import Path

import harness
from cases.case import Attack, Outcome, Scene, check

SECRET = "SECRET-c04e77"
IDENTITY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "a"), ("EMAIL", "a@example.org"))}

# The user's: a private repository with a worktree, another repository with two, and a directory of projects.
BUILT = f"""
git init -q -b main private; cd private; git commit -q --allow-empty -m {SECRET}; git worktree add -q ../private-tree; cd ..
git init -q -b main main; cd main; git commit -q --allow-empty -m one; git worktree add -q ../tree; git worktree add -q ../other; git worktree add -q inner; cd ..
mkdir -p projects/w
"""
# Repositories of other forms.
OTHERS = {
    "all-tree": "git clone -q --bare main all.git; git -C all.git worktree add -q ../all-tree -b all",
    "super/sub": "git init -q super; git -C super -c protocol.file.allow=always submodule --quiet add ../main sub",
}
WORKTREE = 'mkdir -p "$1" && cp private/.git/worktrees/private-tree/HEAD "$1" && echo ../.. > "$1/commondir" && echo "$PWD/$2/.git" > "$1/gitdir"'
PLANTED = 'echo "gitdir: $PWD/$1" > projects/w/.git'

# Earlier runs do this: a work directory, and a script that begins in the directory above.
WAYS = {
    "other": (("projects", f"set -- private/.git/worktrees/private-tree; {PLANTED}"),),
    "repository": (("projects", f"set -- private/.git; {PLANTED}"),),
    "forged": (("private", f"set -- private/.git/worktrees/w projects/w; {WORKTREE}"), ("projects", f"set -- private/.git/worktrees/w; {PLANTED}")),
    "carried": (("private", f"set -- private/.git/worktrees/w projects/w; {WORKTREE}"),
                ("projects", 'mkdir projects/made && echo "gitdir: $PWD/private/.git/worktrees/w" > projects/made/.git && rmdir projects/w && '
                             "mv projects/made projects/w")),
    "module": (("private", 'set -- private/.git/modules/w; mkdir -p "$1" && cp -r private/.git/HEAD private/.git/objects private/.git/refs "$1" && '
                           'printf "[core]\\n\\tworktree = %s\\n" "$PWD/projects/w" > "$1/config"'),
               ("projects", f"set -- private/.git/modules/w; {PLANTED}")),
    # The user's own worktree, and a run in its main work tree. The first lies within it, and the default profile holds its `.git`.
    "replaced": (("private", f"set -- private/.git/worktrees/inner main/inner; {WORKTREE}"),
                 ("main", 'cd main; mkdir made && echo "gitdir: ${PWD%/main}/private/.git/worktrees/inner" > made/.git; cp made/.git inner/.git || '
                          "mv -f made/.git inner/.git || ln -f made/.git inner/.git || { mv inner away; rm -rf inner; mv -T made inner; } || "
                          "{ mkdir -p inner; cp made/.git inner/.git; } || true")),
    # Settings that name the work directory, as of a repository apart.
    "apart": (("private", 'cd private; cp .git/config made; printf "[core]\\n\\tworktree = %s\\n" "${PWD%/*}/projects/w" >> made; mv made .git/config'),
              ("projects", f"set -- private/.git; {PLANTED}")),
    "link": (("private", f"set -- private/.git/worktrees/tree tree; {WORKTREE}"), ("main", "cd main && mv .git away && ln -s ../private/.git .git")),
    "objects": (("main", "cd main/.git && mv objects away && ln -s ../../private/.git/objects objects"),),
    "alternates": (("main", 'echo "$PWD/private/.git/objects" > main/.git/objects/info/alternates'),),
}
IN_TREE = ("link", "objects", "alternates")
BY_PROFILE = ("replaced",)


def build(scene: Scene, more: str = "") -> Path:
    """The user's repositories, and a state directory of their own: what one play recorded must not help another."""
    box = scene.box
    root = box.tree / "place"
    if root.exists():
        harness.remove_tree(root)
    box.directory(root)
    scene.kept["turn"] = scene.kept.get("turn", 0) + 1
    made = scene.bare(["/bin/sh", "-ec", BUILT + more], cwd=root, env=IDENTITY)
    if made.code != 0:
        raise AssertionError("the repositories were not made\n" + made.describe())
    return root


def run(scene: Scene, script: str, workdir: Path, supervised: bool, rules: dict | None = None) -> harness.Result:
    scene.box.replays.leave_out("the places of repositories are changed between the runs")
    environment = {**IDENTITY, "XDG_STATE_HOME": str(scene.box.directory(scene.box.root / f"state{scene.kept['turn']}"))}
    line = ["/bin/sh", "-ec", script]
    if not supervised:
        return scene.bare(line, cwd=workdir, env=environment)
    return scene.supervised(line, rules, ["--ask", "never"], cwd=workdir, env=environment)


@dataclasses.dataclass(frozen=True)
class Pointer(Attack):
    """The goal is that a run in a work directory reads a commit of the private repository by its name."""

    way: str

    def play(self, scene: Scene, supervised: bool, final: str = "") -> harness.Result:
        root = build(scene)
        commit = scene.bare(["git", "rev-parse", "HEAD"], cwd=root / "private").text.strip()
        for where, script in WAYS[self.way]:
            # A run under rules of the user's own, which hold nothing of git.
            rules = harness.rule_set({"id": "own", "allow": ["read", "write", "execute"], "path": ["/usr/**", "/lib/**", "/lib64/**", "/bin/**", f"{root}/{where}/**"]},
                                     {"id": "seen", "allow": "read", "path": ["/etc/**", f"{root}/**"]})
            made = run(scene, f'cd "{root}"; {script}', root / where, supervised, None if self.way in BY_PROFILE and where == "main" else rules)
            if made.code != 0:
                raise AssertionError("an earlier run did not leave its pointer\n" + made.describe())
        start = root / (final or ("tree" if self.way in IN_TREE else "main/inner" if self.way in BY_PROFILE else "projects/w"))
        return run(scene, f"git log -1 --format=%s {commit}", start, supervised)

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, False)
        return check({"the control did not reach its goal": SECRET not in result.text}, "read", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, True)
        silent = self.way not in ("alternates", *BY_PROFILE) and "stays closed" not in result.errors
        return check({"it was opened": SECRET in result.text, "nothing says that it is closed": silent}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """After the same runs, the private repository's own worktree works."""
        result = self.play(scene, True, "private-tree")
        return check({"the user's worktree does not work": SECRET not in result.text}, "read", result.describe())


@dataclasses.dataclass(frozen=True)
class Changed(Attack):
    """A run in a worktree wants to change a file of the repository that it may not change."""

    path: str
    script: str = 'mkdir -p "$(dirname "$1")" && echo PLANTED > made && cat made > "$1"'
    start: str = "tree"
    there: bool = False  # the user's git has just made it

    def build(self, scene: Scene) -> Path:
        root = build(scene, OTHERS.get(self.start, ""))
        if self.there:
            scene.box.file(root / self.path, b"the user's\n")
        return root

    def play(self, scene: Scene, supervised: bool) -> tuple[bool, harness.Result]:
        root = self.build(scene)
        result = run(scene, f'set -- "{root}/{self.path}"; {self.script}', root / self.start, supervised)
        target = root / self.path
        return target.is_file() and b"PLANTED" in target.read_bytes(), result

    def control(self, scene: Scene) -> Outcome:
        reached, result = self.play(scene, False)
        return check({"the control changed nothing": not reached}, "changed", result.describe())

    def held(self, scene: Scene) -> Outcome:
        reached, result = self.play(scene, True)
        return check({"it was changed": reached, "nothing is on record": not result.decisions(verdict="deny") and not result.report["denials"]},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """A branch is made, and it follows another: that is in the settings."""
        root = build(scene, OTHERS.get(self.start, ""))
        result = run(scene, "git commit -q --allow-empty -m PLANTED && git branch made && git branch --track second made", root / self.start, True)
        made = scene.bare(["git", "rev-parse", "--abbrev-ref", "second@{upstream}"], cwd=root / self.start).text.strip()
        return check({"a branch cannot be made": result.code != 0 or made != "made"}, "made", result.describe())
