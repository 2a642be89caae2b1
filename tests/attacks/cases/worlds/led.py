"""A run leaves a link, and the next start comes through it: a work directory, an option's path, a job's work directory."""
from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import harness
from cases.case import SECRET, Attack, Outcome, Scene, check

# How a script that runs first puts a link to $1 at $2. The directories above $2 are there.
PLANTED = {
    "made": 'ln -s "$1" "$2"',
    "replaced": 'rm -r "$2" && ln -s "$1" "$2"',
    "renamed": 'ln -s "$1" "$2.made" && mv -T "$2.made" "$2"',
    "carried": 'mkdir -p "${2%/*/*}/made" && ln -s "$1" "${2%/*/*}/made/${2##*/}" && rmdir "${2%/*}" && mv -T "${2%/*/*}/made" "${2%/*}"',
    "relative": 'ln -sr "$1" "$2"',
}


@dataclasses.dataclass(frozen=True)
class Led(Attack):
    """`way` is how the second start comes to the name, `planted` how the first one made it lead elsewhere.

    The goal is that the second start opens what the name leads to. In the control the first one runs bare: callgate cannot know of
    its link, as of any that a person made. `same`: the second start's own rules let a run make links there. The first run has another
    state directory, so its record is not at hand.
    """

    way: str
    planted: str = "made"
    same: bool = False
    wide: bool = False  # the link leads to the home, and a person made it: no record is needed

    def build(self, scene: Scene) -> Path:
        box = scene.box
        root = box.tree / "place"
        if root.exists():
            harness.remove_tree(root)
        box.directory(root)
        for name in ("work", "work/in", "own", "secret", "secret/sub"):
            box.directory(root / name)
        self.goal(scene).parent.mkdir(exist_ok=True)
        box.file(self.goal(scene), SECRET)
        box.file(root / "secret/sub/victim", SECRET)
        box.file(root / "secret/rules.json", json.dumps(self.opening(root)).encode())
        scene.kept["turn"] = scene.kept.get("turn", 0) + 1
        return root

    def opening(self, root: Path) -> dict[str, Any]:
        return {"version": 1, "rules": [{"id": "planted", "allow": "read", "path": f"{root}/secret/**"}]}

    def goal(self, scene: Scene) -> Path:
        return (scene.box.home if self.wide else scene.box.tree / "place/secret") / "victim"

    def environment(self, scene: Scene, other: str = "") -> dict[str, str]:
        """A state directory for each of the three plays: what one recorded must not help another."""
        return {"XDG_STATE_HOME": str(scene.box.directory(scene.box.root / f"state{scene.kept['turn']}{other}"))}

    def first(self, scene: Scene, root: Path, name: Path, supervised: bool) -> harness.Result:
        if self.planted == "replaced":
            scene.box.directory(name)
        to = str(self.goal(scene).parent)
        line = ["/bin/sh", "-c", PLANTED[self.planted], "sh", to, str(name)]
        if not supervised:
            result = scene.bare(line)
        else:
            rules = harness.rule_set({"id": "work", "allow": ["read", "write"], "path": f"{root}/work/**"})
            result = scene.supervised(line, rules, ["--workdir", str(root / "own")],
                                      env=self.environment(scene, "other" if self.same else ""))
        if not name.is_symlink():
            raise AssertionError("no link was planted\n" + result.describe())
        return result

    def second(self, scene: Scene, root: Path, name: Path) -> harness.Result:
        """A later start that names `name`, and reads what is there."""
        box = scene.box
        victim = self.goal(scene)
        rules: list[dict[str, Any]] = [{"id": "workdir", "allow": ["read", "write"], "path": "${workdir}/**"}]
        if self.same:
            rules.append({"id": "work", "allow": ["read", "write"], "path": f"{root}/work/**"})
        options, cwd, environment = ["--workdir", str(root / "own")], box.tree, self.environment(scene)
        if self.way == "workdir":
            options = ["--workdir", str(name)]
        elif self.way == "relative":
            options, cwd = ["--workdir", name.name], name.parent
        elif self.way == "beneath":
            options, victim = ["--workdir", str(name / "sub")], victim.parent / "sub/victim"
        elif self.way == "chain":  # a link of the user's own leads on to it
            box.file(root / "own/.keep").parent.joinpath("mine").symlink_to(name)
            options = ["--workdir", str(root / "own/mine")]
        elif self.way == "shell":  # the user's shell went there
            options, cwd, environment = [], name, {**environment, "PWD": str(name)}
        elif self.way == "shell_relative":
            options, cwd, environment = ["--workdir", "sub"], name, {**environment, "PWD": str(name)}
            victim = victim.parent / "sub/victim"
        elif self.way in ("read", "write"):
            options += [f"--{self.way}", str(name)]
        elif self.way == "rule":
            rules.append({"id": "its", "allow": "read", "path": f"{name}/**"})
        elif self.way == "except":
            rules += [{"id": "all", "allow": "read", "path": f"{root}/**"},
                      {"id": "closed", "deny": "read", "path": f"{root}/secret/**", "except": {"path": f"{name}/**"}}]
        elif self.way == "rules":
            options += ["--rules", str(name / "rules.json")]
        elif self.way == "job":
            job = {"workdir": str(name), "command": ["/bin/cat", str(victim)], "rules": harness.rule_set(*rules)}
            return box.run([str(box.callgate), "exec", "--no-audit"], supervised=False, stdin=json.dumps(job).encode(), env=environment)
        else:
            raise AssertionError(self.way)
        return box.run(["/bin/cat", str(victim)], harness.rule_set(*rules), options=[*scene.options, *options], env=environment, cwd=cwd)

    def name(self, root: Path) -> Path:
        return root / ("work/in/it" if self.planted == "carried" else "work/it")

    def play(self, scene: Scene, supervised: bool) -> tuple[Path, harness.Result]:
        scene.box.replays.leave_out("what the paths led to is changed between the runs")
        root = self.build(scene)
        name = self.name(root)
        self.first(scene, root, name, supervised)
        return root, self.second(scene, root, name)

    def control(self, scene: Scene) -> Outcome:
        if self.same or self.wide:  # the second start decides by itself: bare, the name opens the victim
            root = self.build(scene)
            self.first(scene, root, self.name(root), False)
            result = scene.bare(["/bin/cat", str(self.name(root) / "victim")])
        else:
            _, result = self.play(scene, False)
        return check({"the control did not reach its goal": SECRET not in result.out}, "read", result.describe())

    def held(self, scene: Scene) -> Outcome:
        root, result = self.play(scene, not self.wide)
        said = result.errors + result.text
        return check({
            "it was opened": SECRET in result.out,
            "nothing says what is wrong": "symbolic link" not in said or str(self.goal(scene).parent) not in said,
            "something ran": result.code != 125,
        }, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """After the same first run, a link that the user made where no run may."""
        scene.box.replays.leave_out("what the paths led to is changed between the runs")
        root = self.build(scene)
        self.first(scene, root, self.name(root), True)
        mine = root / "data"
        there = scene.box.directory(root / "there")
        for name in (there / "victim", scene.box.directory(there / "sub") / "victim"):
            scene.box.file(name, SECRET)
        scene.box.file(there / "rules.json", json.dumps(self.opening(root)).encode())
        mine.symlink_to(there)
        scene.box.own(mine)
        result = dataclasses.replace(self, wide=False).second_at(scene, root, mine, there)
        return check({"the user's own link is refused": result.code != 0 or SECRET not in result.out}, "read", result.describe())

    def second_at(self, scene: Scene, root: Path, mine: Path, there: Path) -> harness.Result:
        """The second start with a name whose target takes the place of the secret directory."""
        secret = root / "secret"
        harness.remove_tree(secret)
        there.rename(secret)
        mine.unlink()
        mine.symlink_to(secret)
        scene.box.own(mine)
        return self.second(scene, root, mine)
